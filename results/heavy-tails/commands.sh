#!/bin/sh
# Everything under this folder, from nothing: sh commands.sh (about half an hour on two cores).
# Runs and compressed nets go to runs/; records, pictures and certificates come here. What is here already is not made again.
set -e
here=$(dirname "$0")
cushion train lenet-300-100 --data mnist -o runs/lenet > /dev/null
cushion train shin-resnet20 --data cifar10 --epochs 6 --lr-halve-every 1 -o runs/resnet20 > /dev/null
mkdir -p runs/nets/shin

# Laws of the weights and eigenvalues, every power law tested on 200 samples of its own.
tails() { # name, net, data
    test -e "$here/$1-tails.json" && return
    cushion measure "$2" --data "$3" --only tails --bootstrap 200 --figures "$here/$1" --json "$here/$1-tails.json.part" > "$here/$1-tails.txt"
    mv "$here/$1-tails.json.part" "$here/$1-tails.json"
}
tails lenet runs/lenet mnist
tails resnet20 runs/resnet20 cifar10

make() { # name, net, data, options
    name=$1; net=$2; data=$3; shift 3
    test -e "$here/$name.json" && return
    cushion compress "$net" --data "$data" --method heavy-tail "$@" -o "runs/nets/shin/$name.net" --json "$here/$name.json.part" > "$here/$name.txt"
    mv "$here/$name.json.part" "$here/$name.json"
}

# Corrected, as the algorithm prints it, and as Appendix E prints it; the best of all thresholds, variances and grids.
make corrected runs/lenet mnist --tau 1 --t 1
make without-noise runs/lenet mnist --tau 1 --t 0
make algorithm runs/lenet mnist --form algorithm --tau 1
make appendix runs/lenet mnist --form appendix
make best runs/lenet mnist --grid best --certificate "$here/best.cushion"
make proposition runs/lenet mnist --epsilon 0.01 --eta 0.01
make resnet20-appendix runs/resnet20 cifar10 --form appendix
make resnet20-last runs/resnet20 cifar10 --layers last --tau 1 --t 0,1
