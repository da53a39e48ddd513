#!/bin/sh
# Everything under this folder, from nothing: sh commands.sh (train, then compress; some hours on two cores).
# Runs, compressed nets and all figures go to runs/; records and small figures come here. What is here already is not made again.
set -e
here=$(dirname "$0")

train() { # NAME RECIPE DATA OPTIONS
    name=$1 recipe=$2 data=$3
    shift 3
    test -e "runs/$name/net.safetensors" || cushion train "$recipe" --data "$data" "$@" -o "runs/$name"
}

record() { # NAME RUN DATA METHOD OPTIONS
    name=$1 run=$2 data=$3 method=$4
    shift 4
    test -e "$here/$name.json" && return
    mkdir -p "$here/$(dirname "$name")" "runs/figures/$name" "runs/nets/$(dirname "$name")"
    cushion compress "runs/$run" --data "$data" --method "$method" "$@" -o "runs/nets/$name.net" \
        --figures "runs/figures/$name" --json "$here/$name.json.part" > "$here/$name.txt"
    for figure in "runs/figures/$name"/*.png; do
        test -e "$figure" && cp "$figure" "$here/$name-$(basename "$figure" | sed 's/.*-//')"
    done
    mv "$here/$name.json.part" "$here/$name.json"
}

train lenet lenet-300-100 mnist
train vgg neyshabur-vgg cifar10 --width 0.25 --epochs 16
test -e runs/zero-one.npz || python "$here/two-digits.py" runs/zero-one.npz
train zero-one "1x28x28: flatten fc2" runs/zero-one.npz --epochs 10
train linear "1x28x28: flatten fc10" mnist --epochs 10

record lenet/low-rank-margin lenet mnist low-rank
record lenet/low-rank lenet mnist low-rank --k 20% --sweep 1%,2%,5%,10%,20%,40%,70%
record lenet/low-rank-initialisation lenet mnist low-rank --from-initialisation --k 20% --sweep 1%,2%,5%,10%,20%,40%,70%
record lenet/matrix-project lenet mnist matrix-project --k 5% --sweep 1%,5%,20%,100%,300%
record lenet/matrix-project-zeta lenet mnist matrix-project --k 5% --zeta 0.05
record lenet/matrix-project-initialisation lenet mnist matrix-project --from-initialisation --k 5% --sweep 1%,5%,20%,100%,300%
record lenet/matrix-project-srht lenet mnist matrix-project --helper srht --k 50% --sweep 1%,5%,20%,50%,80%,100%
# vgg errs on 15 % of its training examples, so its margin is that which all but a quarter exceed.
record vgg/low-rank vgg cifar10 low-rank --level 0.25 --k 20% --sweep 5%,20%,40%,70%
record vgg/matrix-project vgg cifar10 matrix-project --level 0.25 --k 5% --sweep 5%,100%,300%
# A filter at each place makes a forward pass many times slower: on 5000 of the training examples, without the held-out ones.
record vgg/conv-project vgg cifar10,subset=5000 conv-project --level 0.25 --k 2 --sweep 1,2,4,8
record zero-one/vector-compress zero-one runs/zero-one.npz vector-compress --sweep gamma=1,gamma=4,gamma=16,gamma=64
record zero-one/vector-project zero-one runs/zero-one.npz vector-project --k 100 --sweep 10,20,50,100,200,400,785
record zero-one/vector-project-srht zero-one runs/zero-one.npz vector-project --helper srht --k 100 --sweep 10,20,50,100,200,400,785
record linear/vector-compress linear mnist vector-compress --level 0.2 --sweep gamma=0.5,gamma=2,gamma=8
record linear/vector-project linear mnist vector-project --level 0.2 --k 400 --sweep 50,100,200,400,785
