"""Rate-aware search for the integer net whose Occam bound is smallest: each try learns a blueprint,
prunes it with real weights, settles it on the grid and polishes its last layer.

Nothing in here is trusted: what counts is the message of the net that comes out, and its error
count by exact evaluation. How a net was found (initialisation, schedule, number of tries) costs no
bits, because the decoder never reads it.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import count

import torch
from torch import Tensor

from cushion.certificates.search.integer.blueprints import Plan, plans
from cushion.certificates.search.integer.last_layer import polish
from cushion.certificates.search.integer.trainable import GridWeights, TrainableIntegerNet
from cushion.certificates.search.integer.under_way import (
    LEARNING,
    SETTLING,
    Course,
    learned,
    remembered,
    settled,
    take_up_settling,
)
from cushion.certificates.search.integer.warm_start import FloatTwin
from cushion.certificates.search.pausing import Keeper
from cushion.certificates.search.sample import Sample
from cushion.certificates.search.sizes import image_shape
from cushion.certificates.search.task import (
    Judging,
    Place,
    State,
    Task,
    price_of_a_bit,
    relaxed_bound,
)
from cushion.data.dataset import Dataset

# values in an example; below, threads spend longer waiting for one another than computing
_WORTH_THREADS = 256
_EXCHANGE = 2.5  # cross-entropy that goes with one unit of error rate
_PRUNE_FROM, _PRUNE_UNTIL = 0.1, 0.75  # of the time with real weights
_FREE, _HELD_BY = 0.1, 0.97  # of the time after it: when holding begins and ends
_CHOICE = 4  # candidates for every number that is held next
_HOLD = 20  # steps between two rounds of holding
_WORTH_A_LOOK = 0.15  # of a squeeze; earlier nets are not judged
_LOOKS = 200  # batches on which curvature is measured, at most
_LEAST = 0.1  # of the time, for settling
_LOOK = 50  # steps between two looks at the code's costs and the bound


def search(task: Task) -> Judging:
    """Train plan after plan until the time is over; keep the net with the smallest judge(net).

    The search begins with the net that always says the most frequent class, so there is always an
    answer; Ctrl-C ends it early and keeps the best so far. Only nets that promise to beat it are
    judged.
    """
    data, seconds = task.data, task.options.seconds
    begin = time.monotonic()
    judging = Judging(task)
    begin -= judging.place.seconds
    resumed, keeper = task.paused, Keeper(task.pause)
    held: dict[tuple[int, int], Sample] = {}  # by shift and square: examples are read once
    with judging:
        if data.x[0].size < _WORTH_THREADS:
            torch.set_num_threads(1)
        # of one example, batches have no variance, and no net can beat the constant one
        choices = plans(image_shape(data), data.classes) if len(data) > 1 else []
        for tries in count(judging.place.tries) if choices else ():
            lap, place = divmod(tries, len(choices))
            # each time round twice as long
            plan = replace(choices[place], steps=choices[place].steps << min(lap, 10))
            seed, reading = task.options.seed + tries, (plan.input_shift, plan.square)
            left_at = resumed if resumed is not None and resumed.tries == tries else None
            spent = time.monotonic() - begin
            if left_at is None and spent >= seconds - judging.cost:
                break
            judging.begin(Place(tries, spent))
            course = Course(tries, left_at, keeper)
            if left_at is not None:
                begin -= course.spent  # what it took before it was killed
            if reading not in held:
                held[reading] = Sample.of(data, reading[0], seed, task.teacher, reading[1])
            sample = held[reading].again(seed)
            left = seconds - judging.cost - spent
            whole = min(left, plan.share * seconds)
            for state in attempt(plan, sample, data, whole, seed, course):
                promising = state.promise < 1.05 * float(judging.lowest)
                if state.net is not None and promising and (state.last or judging.rested()):
                    judging.hear(state.net)
                task.report(min(1.0, (time.monotonic() - begin) / seconds), judging.lowest)
    return judging


def attempt(
    plan: Plan,
    sample: Sample,
    data: Dataset,
    seconds: float,
    seed: int,
    course: Course | None = None,
) -> Iterator[State]:
    """One try: train, then polish what came out, for a part of the time that training took.

    What the caller does between two states counts as time. Where as much again as it did with the
    last one is all that is left, nothing is polished.
    """
    course = course or Course()
    net, judged = None, 0.0
    for state in train(plan, sample, (1.0 - plan.polish) * seconds, course):
        net, before = state.net, time.monotonic()
        yield state
        judged = time.monotonic() - before
    spent = course.spent
    rest = min(plan.polish / (1.0 - plan.polish) * spent, seconds - spent)
    if net is not None and rest > judged:
        yield from polish(net, data.x, data.y, rest, seed)


def train(
    plan: Plan, sample: Sample, seconds: float, course: Course | None = None
) -> Iterator[State]:
    """One try, of plan.steps or as many as there is time for: learn, prune, then settle."""
    course = course or Course()

    def weights(stored: tuple[int, ...], _: int) -> GridWeights:
        return GridWeights(stored, plan.levels, sample.generator, plan.spread)

    model = TrainableIntegerNet(plan.blueprint, *sample.kind, weights, sample.square)
    model.calibrate(sample.some())
    if plan.price:
        yield from squeeze(model, plan, sample, schedule(plan.steps, seconds))
        return
    if not course.is_past(LEARNING):
        left_at = course.left_in(LEARNING)
        twin, looks = FloatTwin(model, sample.generator), 0
        if left_at is not None:
            looks = -(-left_at.steps // _LOOK)
        warm = course.through(LEARNING, plan.warm * plan.steps, plan.warm * seconds)
        for _ in learn(twin, sample, plan.density, warm, course):
            looks += 1
            yield State(None, 1.0)
        twin.fold(sample.some(), plan.spread, needs(twin, sample, min(_LOOKS, 5 * looks)))
    left = max(seconds - course.spent, _LEAST * seconds)
    rest = course.through(SETTLING, (1 - plan.warm) * plan.steps, left)
    yield from settle(model, plan, sample, rest, course)


def schedule(steps: float, seconds: float) -> Iterator[float]:
    """Progress up to 1.0: through the steps, or through the seconds if those end sooner."""
    begin = time.monotonic()
    step, progress = 0, 0.0
    while progress < 1.0:
        step += 1
        progress = min(1.0, max(step / steps, (time.monotonic() - begin) / seconds))
        yield progress


def learn(
    twin: FloatTwin,
    sample: Sample,
    density: float,
    progress: Iterator[tuple[int, float]],
    course: Course,
) -> Iterator[None]:
    """Train the twin and prune it to the density; gives the caller a turn now and then."""
    optimiser = torch.optim.Adam(twin.parameters(), lr=0.01, fused=True)
    if course.left_in(LEARNING) is not None:
        course.take_up(twin, optimiser, sample, remembered(twin))
    for step, done in progress:
        anneal(optimiser, [0.01 * min(1.0, (step + 1) / 100)], done, least=0.03)
        sample.descend(twin, optimiser)
        pruned = min(1.0, max(0.0, (done - _PRUNE_FROM) / (_PRUNE_UNTIL - _PRUNE_FROM)))
        if density < 1.0 and (done >= 1.0 or (pruned > 0.0 and step % (2 * _LOOK) == 0)):
            moments = {key: optimiser.state[weight] for key, weight in twin.weights.items()}
            squares = {key: moment["exp_avg_sq"] for key, moment in moments.items()}
            twin.prune(squares, density + (1.0 - density) * (1.0 - pruned) ** 3)
        if step % _LOOK == 0:
            course.offer(step + 1, 0.5, lambda: learned(twin, optimiser))
            yield


def needs(twin: FloatTwin, sample: Sample, batches: int = _LOOKS) -> dict[str, list[Tensor]]:
    """Mean squared gradients of each layer's numbers: how much the loss minds errors."""
    twin.eval()
    trained = {key: twin.numbers(key) for key in twin.weights}
    found = {key: [torch.zeros_like(part) for part in layer] for key, layer in trained.items()}
    for _ in range(batches):
        rows = sample.rows()
        twin.zero_grad()
        sample.loss(twin(sample.pixels[rows].float()), rows).backward()  # type: ignore[no-untyped-call]
        for key, layer in trained.items():
            for numbers, squares in zip(layer, found[key], strict=True):
                assert numbers.grad is not None
                squares += numbers.grad.square() / batches
    return found


def settle(
    model: TrainableIntegerNet,
    plan: Plan,
    sample: Sample,
    progress: Iterator[tuple[int, float]],
    course: Course,
) -> Iterator[State]:
    """Bring numbers to the grid, a few at a time, while the free ones make up for their rounding
    (Zhou et al., "Incremental network quantization", 2017).
    """
    rates = (plan.rate * plan.spread, 4.0 * plan.rate, 0.01)
    optimiser = optimiser_of(model)
    error = 0.5
    model.release()
    if course.left_in(SETTLING) is not None:
        error = take_up_settling(course, model, optimiser, sample)
    for step, done in progress:
        for group, rate in zip(optimiser.param_groups, rates, strict=True):
            group["lr"] = rate * min(1.0, (step + 1) / 200) * (1.0 - 0.8 * done)
        if done >= 1.0 or step % _HOLD == _HOLD - 1:
            hold(model, optimiser, min(1.0, max(0.0, (done - _FREE) / (_HELD_BY - _FREE))))
        wrong = sample.descend(model.logits, optimiser)
        error += max(0.01, 1.0 / (step + 1)) * (wrong - error)
        if done >= 1.0 or step % _LOOK == _LOOK - 1:
            course.offer(step + 1, min(1.0, error), lambda: settled(model, optimiser))
            net = model.freeze() if done >= _HELD_BY else None
            yield State(net, relaxed_bound(error, model.bits(), len(sample)), done >= 1.0)


def squeeze(
    model: TrainableIntegerNet, plan: Plan, sample: Sample, progress: Iterator[float]
) -> Iterator[State]:
    """Train rounded weights (straight through) on cross-entropy plus the price of their bits.

    The price is what a bit is worth to the bound at the present error and length, times plan.price,
    and rises to that by half-time. The best way for small nets on few examples, where every try is
    short.
    """
    for layer in model.weights.values():
        assert isinstance(layer, GridWeights)
        layer.always_round = True
    rates = (plan.rate * plan.spread, plan.rate, 0.02)
    optimiser = optimiser_of(model)
    error, worth, bits = 0.5, 0.0, 0.0
    for step, done in enumerate(progress):
        anneal(optimiser, rates, done)
        if step % _LOOK == 0:
            bits = model.bits()
            worth = _EXCHANGE * price_of_a_bit(error, bits, len(sample))
        price = plan.price * worth * min(1.0, 2.0 * done)
        wrong = sample.descend(model.logits, optimiser, price, model.rate)
        error += max(0.02, 1.0 / (step + 1)) * (wrong - error)
        if done >= 1.0 or step % _LOOK == _LOOK - 1:
            net = model.freeze() if done > _WORTH_A_LOOK else None
            yield State(net, relaxed_bound(error, bits, len(sample)), done >= 1.0)


def optimiser_of(model: TrainableIntegerNet) -> torch.optim.Adam:
    """Three groups: weights, biases, the scale of the logits."""
    groups = [model.weights.parameters(), model.biases.parameters(), [model.log_scale]]
    each = [{"params": list(group)} for group in groups]
    return torch.optim.Adam(each, betas=(0.9, 0.99), fused=True)


def anneal(
    optimiser: torch.optim.Optimizer, rates: Sequence[float], done: float, least: float = 0.02
) -> None:
    """Learning rates of the groups, down a cosine to the least part of them."""
    part = least + (1.0 - least) * 0.5 * (1 + math.cos(math.pi * done))
    for group, rate in zip(optimiser.param_groups, rates, strict=True):
        group["lr"] = rate * part


def hold(model: TrainableIntegerNet, optimiser: torch.optim.Adam, part: float) -> None:
    """Hold this part of all kept numbers: first those whose rounding the loss minds most.

    While most numbers are free they make up for the rounding of one. The last has nothing left to
    make up for it, so it should matter least. Of the few most sensitive (by mean squared gradient,
    in grid steps), those go that happen to be nearest to the grid.
    """
    holders = model.held()
    away = torch.cat([holder.distances().reshape(-1) for holder in holders])
    free = away.isfinite()
    # before the first step, where the time is up by then, the loss minds all alike
    moments = [optimiser.state.get(holder.real, {}).get("exp_avg_sq") for holder in holders]
    pairs = zip(holders, moments, strict=True)
    each = [torch.zeros_like(h.real) if moment is None else moment for h, moment in pairs]
    squares = torch.cat([moment.reshape(-1) for moment in each])
    kept = sum(int(holder.mask.sum()) for holder in holders)
    more = round(part * kept) - (kept - int(free.sum()))
    if more <= 0:
        return
    sensitive = torch.where(free, squares, -1.0).topk(min(_CHOICE * more, int(free.sum()))).indices
    chosen = torch.zeros_like(free)
    chosen[sensitive[away[sensitive].topk(more, largest=False).indices]] = True
    parts = torch.split(chosen, [holder.real.numel() for holder in holders])
    for holder, its in zip(holders, parts, strict=True):
        holder.hold(its.reshape(holder.real.shape))
