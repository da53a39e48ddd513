"""cushion certify --kind pac-bayes, and how verbs show what such a certificate pays."""

from __future__ import annotations

import argparse
from typing import Any

from cushion.certificates.format.gaussian_claims import GaussianClaim
from cushion.cli.output import table
from cushion.errors import BadInput


def certify_posterior(args: argparse.Namespace) -> tuple[dict[str, Any], str]:
    """Train and certify a Gaussian posterior, write the file, and return what to answer."""
    from cushion.certificates import posterior as pac_bayes
    from cushion.certificates.certificate import holdout_sentence
    from cushion.cli.verify import claim_json
    from cushion.data import load_pair
    from cushion.numerics import percent_up
    from cushion.progress import working

    if args.net is not None or args.unlabelled is not None:
        raise BadInput(
            "--kind pac-bayes certifies a distribution over nets that it trains itself; leave "
            "--net out"
        )
    data, holdout = load_pair(args.data)
    total = 60 * args.minutes
    with working("training", total, f"{args.minutes:g} min") as bar:

        def report(seconds: float, estimate: float) -> None:
            bar.say(f"bound perhaps {percent_up(str(estimate))}")
            bar.reach(min(seconds, total))

        certificate = pac_bayes.certify_posterior(
            data,
            delta=args.delta,
            minutes=args.minutes,
            seed=args.seed,
            holdout=holdout,
            report=report,
        )
    certificate.save(args.out)
    claim = certificate.claim
    lines = show_posterior(claim)
    if claim.holdout is not None:
        lines.append(holdout_sentence(claim.holdout, "Q's"))
    lines += [
        "What nobody can check, and is assumed:",
        *(f"- {text}" for text in claim.assumptions),
    ]
    lines.append(f"Check it with: cushion verify {args.out} --data {args.data}")
    return {"ok": True, "file": args.out, **claim_json(claim)}, "\n".join(lines)


def show_posterior(claim: GaussianClaim) -> list[str]:
    """The statement, its numbers, and the ledger in bits and nats, as lines of text."""
    from cushion.certificates.certificate import spaced
    from cushion.certificates.pac_bayes import posterior_sentence
    from cushion.numerics import percent_up

    rows = [[paid.item, paid.bits, paid.nats, paid.meaning] for paid in claim.ledger]
    return [
        posterior_sentence(claim),
        "",
        f"Q: {spaced(claim.errors)} errors in {spaced(claim.draws)} draws on {spaced(claim.m)} "
        f"examples of {claim.data}, KL = {claim.kl} nats, δ = {claim.delta}, of which "
        f"{claim.delta_draws} pay for the draws: at most {percent_up(claim.bound)}",
        f"   fingerprint of the examples: {claim.data_fingerprint}",
        "",
        "What was paid:",
        table(["paid for", "bits", "nats", "what it is"], rows),
    ]
