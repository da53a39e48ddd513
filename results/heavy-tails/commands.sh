#!/bin/sh
# Everything under this folder, from nothing, in the project's folder: sh results/heavy-tails/commands.sh.
# Runs and compressed nets go to runs/; records, pictures and certificates come here. What is here already is not made again.
set -e
here=$(dirname "$0")
cushion train lenet-300-100 --data mnist -o runs/lenet > /dev/null
# The fleet of Figure 3 and Table 1 (some three hours); one of its nets is looked at here too.
cushion reproduce shin2021-figure3 --recorded > /dev/null
cushion reproduce shin2021-table1 --recorded > /dev/null
resnet=results/reproduce/.runs/shin-cifar10-resnet20-3
mkdir -p runs/nets/shin

# Laws of the weights and eigenvalues, every power law tested on 200 samples of its own.
tails() { # name, net, data
    test -e "$here/$1-tails.json" && return
    cushion measure "$2" --data "$3" --only tails --bootstrap 200 --figures "$here/$1" --json "$here/$1-tails.json.part" > "$here/$1-tails.txt"
    mv "$here/$1-tails.json.part" "$here/$1-tails.json"
}
tails lenet runs/lenet mnist
tails resnet20 "$resnet" cifar10

make() { # name, net, data, options
    name=$1; net=$2; data=$3; shift 3
    test -e "$here/$name.json" && return
    cushion compress "$net" --data "$data" --method heavy-tail "$@" -o "runs/nets/shin/$name.net" --json "$here/$name.json.part" > "$here/$name.txt"
    mv "$here/$name.json.part" "$here/$name.json"
}

# A net whose weights are zeros and spikes: a lottery ticket (results/lottery-tickets/commands.sh), with its certificate.
cushion train lenet-300-100 --data mnist --epochs 8 --prune imp --prune-to 0.995 -o runs/imp-lenet > /dev/null
make ticket runs/imp-lenet/level-24 mnist --tau 0.5,1,2,4 --t 0 --grid best --certificate "$here/ticket.cushion"

# Corrected, as the algorithm prints it, and as Appendix E prints it; the best of all thresholds, variances and grids.
make corrected runs/lenet mnist --tau 1 --t 1
make without-noise runs/lenet mnist --tau 1 --t 0
make algorithm runs/lenet mnist --form algorithm --tau 1
make appendix runs/lenet mnist --form appendix
make best runs/lenet mnist --grid best
make proposition runs/lenet mnist --epsilon 0.01 --eta 0.01
make last runs/lenet mnist --layers last --tau 1 --t 1
