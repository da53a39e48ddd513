"""Why well-known layers and functions have no rule, and what to use instead."""

from __future__ import annotations

from cushion.nets.operations.vocabulary import Refused

# (names of classes and functions, reason, fix)
_TABLE = (
    (
        "GELU SiLU Mish Tanh Sigmoid LeakyReLU PReLU RReLU ELU SELU CELU ReLU6 Hardtanh Hardswish "
        "Hardsigmoid Softplus Softsign LogSigmoid Threshold gelu silu mish tanh sigmoid leaky_relu "
        "prelu elu selu celu relu6 hardtanh hardswish hardsigmoid softplus softsign logsigmoid "
        "threshold clamp abs exp log pow sqrt",
        "its activation is not a ReLU",
        "use ReLU and train again",
    ),
    (
        "LayerNorm GroupNorm InstanceNorm1d InstanceNorm2d RMSNorm LocalResponseNorm layer_norm "
        "group_norm instance_norm rms_norm local_response_norm normalize",
        "it normalises each example by its own statistics, which is no fixed affine map",
        "use BatchNorm2d or BatchNorm1d",
    ),
    (
        "RNN LSTM GRU RNNCell LSTMCell GRUCell",
        "it is recurrent: the same weights act once per time step",
        "use a feed-forward net",
    ),
    (
        "Softmax LogSoftmax Softmax2d Softmin softmax log_softmax softmin",
        "softmax is not piecewise linear",
        "return the logits (a softmax at the end does not change the predicted class; apply it "
        "outside the net)",
    ),
    (
        "mul mul_ imul multiply matmul bmm mm einsum baddbmm truediv div div_ Bilinear bilinear",
        "it multiplies or divides feature maps, which no affine layer does",
        "use additions and concatenations, and fold constant factors into a layer's weights or "
        "into the data",
    ),
    (
        "MultiheadAttention TransformerEncoderLayer TransformerEncoder TransformerDecoderLayer "
        "TransformerDecoder Transformer scaled_dot_product_attention multi_head_attention_forward",
        "its attention weights are computed from the input",
        "use convolutions, linear layers and ReLU",
    ),
    (
        "Conv1d Conv3d MaxPool1d MaxPool3d AvgPool1d AvgPool3d BatchNorm3d conv1d conv3d "
        "max_pool1d max_pool3d avg_pool1d avg_pool3d AdaptiveAvgPool1d AdaptiveAvgPool3d "
        "adaptive_avg_pool1d adaptive_avg_pool3d",
        "only two-dimensional convolution and pooling are understood",
        "write it as its 2d version",
    ),
    (
        "ConvTranspose1d ConvTranspose2d ConvTranspose3d conv_transpose1d conv_transpose2d "
        "conv_transpose3d",
        "transposed convolution is not understood",
        "use Conv2d",
    ),
    (
        "getitem chunk split narrow select unbind",
        "it takes a part of a feature map",
        "use the whole map, for instance a strided 1x1 Conv2d instead of x[:, :, ::2, ::2]",
    ),
    (
        "transpose permute movedim swapaxes t",
        "it reorders the axes of a feature map",
        "keep (batch, channels, ...)",
    ),
    (
        "pad ZeroPad2d ReflectionPad2d ReplicationPad2d ConstantPad2d",
        "padding outside a layer is not understood",
        "use the padding option of Conv2d or of the pooling",
    ),
    (
        "Embedding EmbeddingBag embedding",
        "it reads words, not numbers",
        "start the net after the embedding",
    ),
    ("SyncBatchNorm", "batch-norm across processes is not understood", "convert it to BatchNorm2d"),
    (
        "item tolist numpy cpu",
        "it takes values out of the net's computation",
        "keep the forward inside torch",
    ),
    ("OptimizedModule", "it is compiled", "pass the module as it was before torch.compile"),
    (
        "RecursiveScriptModule ScriptModule",
        "it is TorchScript",
        "pass the Python module it was made from",
    ),
    (
        "DataParallel DistributedDataParallel",
        "it only distributes another net",
        "pass the net inside it: model.module",
    ),
)

_REASONS = {name: (reason, fix) for names, reason, fix in _TABLE for name in names.split()}

_GENERIC = (
    "there is no exact rule for it",
    "write it with supported layers (Linear, Conv2d, batch-norm, ReLU, pooling, flatten, addition, "
    "concatenation)",
)


def refusal(name: str) -> Refused:
    """Why the class or function called `name` has no rule."""
    return Refused(*_REASONS.get(name, _GENERIC))
