#!/bin/sh
# Everything under this folder, from nothing: sh commands.sh (about an hour on two cores).
# Runs and compressed nets go to runs/; records and certificates come here. What is here already is not made again.
set -e
here=$(dirname "$0")
run=runs/imp-lenet

# Iterative magnitude pruning to 99.5 % of LeNet-300-100: a dense net, then 24 times "prune a fifth, rewind, train".
test -e "$here/imp.json" || cushion train lenet-300-100 --data mnist --epochs 8 --prune imp --prune-to 0.995 \
    -o "$run" --json "$here/imp.json.part" > "$here/imp.txt"
test -e "$here/imp.json" || mv "$here/imp.json.part" "$here/imp.json"

# Every level's certificate: mask and values on the grid with the smallest bound.
mkdir -p runs/nets/imp-lenet
for folder in "$run"/level-*; do
    level=$(basename "$folder")
    test -e "$here/$level.json" && continue
    cushion compress "$folder" --data mnist --method magnitude --rule zeros --grid best \
        -o "runs/nets/imp-lenet/$level.net" --certificate "$here/$level.cushion" \
        --json "$here/$level.json.part" > "$here/$level.txt"
    mv "$here/$level.json.part" "$here/$level.json"
done

# A ticket of a seeded net: the mask is all that is paid for.
test -e "$here/supermask.json" || cushion compress --data mnist --method supermask --minutes 10 \
    -o "$here/supermask.cushion" --json "$here/supermask.json.part" > "$here/supermask.txt"
test -e "$here/supermask.json" || mv "$here/supermask.json.part" "$here/supermask.json"

# Theorem 6.1 tried: the error of a pruned random net against its width.
test -e "$here/tickets.json" || python - > "$here/tickets.json" <<'END'
from cushion.papers.guha.lottery import ticket_study

print(ticket_study((16, 16, 16, 4), [2**power for power in range(8, 19)]).dumps())
END
