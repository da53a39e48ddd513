"""Why well-known layers and functions have no rule, and what to use instead."""

from __future__ import annotations

from cushion.nets.operations.vocabulary import Refused

# (names of classes and functions in small letters without underscores, reason, fix)
_TABLE = (
    (
        "gelu silu mish tanh sigmoid leakyrelu prelu rrelu elu selu celu relu6 hardtanh hardswish "
        "hardsigmoid softplus softsign logsigmoid threshold clamp abs exp log pow sqrt",
        "its activation is not a ReLU",
        "use ReLU and train again",
    ),
    (
        "layernorm groupnorm instancenorm instancenorm1d instancenorm2d rmsnorm localresponsenorm "
        "normalize",
        "it normalises each example by its own statistics, which is no fixed affine map",
        "use BatchNorm2d or BatchNorm1d",
    ),
    (
        "rnn lstm gru rnncell lstmcell grucell",
        "it is recurrent: the same weights act once per time step",
        "use a feed-forward net",
    ),
    (
        "softmax logsoftmax softmax2d softmin",
        "softmax is not piecewise linear",
        "return the logits (a softmax at the end does not change the predicted class; apply it "
        "outside the net)",
    ),
    (
        "mul imul multiply matmul bmm mm einsum baddbmm truediv div bilinear",
        "it multiplies or divides feature maps, which no affine layer does",
        "use additions and concatenations, and fold constant factors into a layer's weights or "
        "into the data",
    ),
    (
        "multiheadattention transformerencoderlayer transformerencoder transformerdecoderlayer "
        "transformerdecoder transformer scaleddotproductattention multiheadattentionforward",
        "its attention weights are computed from the input",
        "use convolutions, linear layers and ReLU",
    ),
    (
        "conv1d conv3d maxpool1d maxpool3d avgpool1d avgpool3d batchnorm3d adaptiveavgpool1d "
        "adaptiveavgpool3d",
        "only two-dimensional convolution and pooling are understood",
        "write it as its 2d version",
    ),
    (
        "convtranspose1d convtranspose2d convtranspose3d",
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
        "pad zeropad2d reflectionpad2d replicationpad2d constantpad2d",
        "padding outside a layer is not understood",
        "use the padding option of Conv2d or of the pooling",
    ),
    (
        "embedding embeddingbag",
        "it reads words, not numbers",
        "start the net after the embedding",
    ),
    ("syncbatchnorm", "batch-norm across processes is not understood", "convert it to BatchNorm2d"),
    (
        "item tolist numpy cpu",
        "it takes values out of the net's computation",
        "keep the forward inside torch",
    ),
    ("optimizedmodule", "it is compiled", "pass the module as it was before torch.compile"),
    (
        "recursivescriptmodule scriptmodule",
        "it is TorchScript",
        "pass the Python module it was made from",
    ),
    (
        "dataparallel distributeddataparallel",
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
    return Refused(*_REASONS.get(name.lower().replace("_", ""), _GENERIC))
