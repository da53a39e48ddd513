#!/bin/sh
# Everything under this folder, from nothing: sh commands.sh (about half an hour on two cores, most of it training).
# Runs and compressed nets go to runs/; records and certificates come here. What is here already is not made again.
set -e
here=$(dirname "$0")
cushion train lenet-300-100 --data mnist -o runs/lenet > /dev/null
cushion train lenet-300-100 --data mnist --epochs 8 --prune imp --prune-to 0.995 -o runs/imp-lenet > /dev/null
mkdir -p runs/nets/guha

make() { # name, net, options
    name=$1; net=$2; shift 2
    test -e "$here/$name.json" && return
    cushion compress "$net" --data mnist "$@" -o "runs/nets/guha/$name.net" --json "$here/$name.json.part" > "$here/$name.txt"
    mv "$here/$name.json.part" "$here/$name.json"
}

# Algorithm 1 at one strength with Lemma 4.4's grid, and the strength and grid with the smallest bound.
make bernoulli-gentle runs/lenet --method magnitude --d 0.01
make bernoulli runs/lenet --method magnitude --d 1
make bernoulli-best runs/lenet --method magnitude --grid best

# What practitioners do: the smallest weights of the net, of each layer, 2:4, and with fine-tuning.
make global runs/lenet --method magnitude --sparsity 0.8,0.9,0.95,0.98,0.99 --grid best --certificate "$here/global.cushion"
make layer runs/lenet --method magnitude --rule layer --sparsity 0.8,0.9,0.95,0.98,0.99 --grid best
make two-of-four runs/lenet --method magnitude --rule 2:4 --grid best
make fine-tuned runs/lenet --method magnitude --sparsity 0.98,0.99,0.995 --grid best --fine-tune 5 \
    --certificate "$here/fine-tuned.cushion"

# A sketch round trip: every layer of a sparse net as A X B', recovered exactly; the same net as mask and values.
make sketch runs/imp-lenet/level-22 --method sketch --rule zeros --grid 4
make mask-and-values runs/imp-lenet/level-22 --method magnitude --rule zeros --grid 4
python "$here/round_trip.py" runs/nets/guha/sketch.net runs/nets/guha/mask-and-values.net > "$here/round-trip.txt"
