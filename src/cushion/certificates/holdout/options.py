"""What a hold-out certificate can be asked; no torch: the command line makes flags of it."""

from __future__ import annotations

from decimal import Context, Decimal

from cushion.certificates.holdout.lines import Asked, plain
from cushion.errors import BadInput
from cushion.records import Options, option


class HoldoutOptions(Options):
    """Lines beside the overall error, and the ledger that the look is made through."""

    looks: str | None = option(
        None, "the ledger of looks of these rows (cushion holdout open)", shown="H.looks"
    )
    per_class: bool = option(False, "also bound the error within each class")
    top_k: int | None = option(
        None, "also bound how often the true class is not among the K best", least=2, shown="K"
    )
    selective: str | None = option(
        None, "also find where NET may answer with at most this error, such as 1%", shown="RISK"
    )

    def asked(self, classes: int) -> Asked:
        """The lines, for so many classes."""
        if self.top_k is not None and self.top_k >= classes:
            raise BadInput(
                f"`top_k` = {self.top_k} of {classes} classes is never wrong; give fewer, or none"
            )
        risk = None if self.selective is None else parse_risk(self.selective)
        return Asked(bool(self.per_class), self.top_k, risk)


def parse_risk(text: str | float) -> str:
    """A share of errors as a plain decimal.

    >>> parse_risk("1%"), parse_risk("0.01"), parse_risk(0.05)
    ('0.01', '0.01', '0.05')
    """
    said = str(text).strip()
    try:
        risk = Decimal(said.removesuffix("%").strip())
    except ArithmeticError:
        raise BadInput(f"`selective` = {text!r} is not a share; give one such as 1%") from None
    risk = risk / 100 if said.endswith("%") else risk
    exact = Context(prec=40)
    if not risk.is_finite() or not 0 < risk < 1:
        raise BadInput(f"`selective` = {text} must be above 0 and below 1, such as 1% or 0.01")
    if risk != risk.quantize(Decimal("1e-18"), context=exact):
        raise BadInput(f"`selective` = {text} has too many digits; give at most 18 decimals")
    return plain(risk)
