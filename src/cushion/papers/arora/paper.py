"""What Arora 2018 prints: the rows of Table 1, and the numbers in its text."""

from __future__ import annotations

LAYER_OF_FIGURE_1 = 13  # affine layers are counted from 1, as the paper does
LAYER_OF_FIGURE_2 = 5
SPREAD_TRAINED, SPREAD_RANDOM = "trained", "random initialisation, scaled to match"

# layer -> (effective parameters, actual parameters, percent)
TABLE_1 = {
    1: (1644.87, 1728, 95.18),
    4: (644654.14, 147456, 437.18),
    6: (3457882.42, 589824, 586.25),
    9: (36920.60, 1179648, 3.129),
    12: (22735.09, 2359296, 0.963),
    15: (26583.81, 2359296, 1.126),
    18: (5052.15, 262144, 1.927),
}
CLOSEST_RIVAL_LOG10 = 15.0  # Section 6.3: the closest one "is still about 10^15"
PARAMETERS = 20_554_826  # of its VGG-19, as the recipe arora-vgg19 has it
TRAINING_ERROR = 0.0  # of all three nets: "100 % training" accuracy
VGG19_TEST_ERROR = 1 - 0.9245
ALEXNET_TEST_ERROR = 1 - 0.7722
SHUFFLED_TEST_ERROR = 1 - 0.0986
