"""Flags are made from options, and the library's sentences about parameters speak of flags."""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import Literal

import pytest

from cushion.cli.flags import add_options, from_flags, translate, translated
from cushion.records import Options, option


class Chosen(Options):
    rows: int = option(10, "how many of 100 % of the rows", least=1)
    draws: int = option(2, "draws", least=0, flag="sharpness-draws")
    law: Literal["normal", "sphere"] = option("normal", "the law")
    levels: tuple[float, ...] = option((0.1, 1.0), "levels", above=0)
    from_start: bool = option(False, "from the start")


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser()
    add_options(made, Chosen)
    return made


def test_what_is_not_given_is_the_class_s_default() -> None:
    assert from_flags(Chosen, parser().parse_args([])) == Chosen()


def test_what_is_given_is_read() -> None:
    words = [
        "--rows",
        "3",
        "--sharpness-draws",
        "0",
        "--law",
        "sphere",
        "--levels",
        "1,2",
        "--from-start",
    ]
    assert from_flags(Chosen, parser().parse_args(words)) == Chosen(
        3, 0, "sphere", (1.0, 2.0), True
    )
    assert from_flags(Chosen, parser().parse_args([]), rows=4).rows == 4


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("--rows 0", "must be a whole number of at least 1, not 0"),
        ("--rows x", "must be a whole number of at least 1, not 'x'"),
        ("--law odd", "must be one of normal, sphere, not odd"),
        ("--levels 1,,2", "must be numbers above 0, such as 0.1,1, not '1,,2'"),
    ],
)
def test_a_bad_value_is_one_sentence(
    capsys: pytest.CaptureFixture[str], words: str, sentence: str
) -> None:
    with pytest.raises(SystemExit):
        parser().parse_args(words.split())
    assert sentence in capsys.readouterr().err


def test_help_has_meaning_and_default() -> None:
    text = re.sub(r"\s+", " ", parser().format_help())
    assert "how many of 100 % of the rows (default 10)" in text
    assert "--levels F,F levels (default 0.1,1)" in text


def test_parameters_become_flags_where_there_are_some() -> None:
    flags = {"--number-bits", "-o", "--prune-to"}
    said = "`number_bits` = 3 is few; see `out`, `to` = 1 and `other`"
    assert translate(said, flags) == "--number-bits 3 is few; see -o, --prune-to 1 and `other`"
    assert translated({"`to`": ["`to`", 1, {"a": "`to`"}]}, flags) == {
        "`to`": ["--prune-to", 1, {"a": "--prune-to"}]
    }


def test_a_parameter_of_two_verbs_has_the_flag_of_the_one_that_is_run() -> None:
    said = "a larger `scale`, or `offset` = 128"
    assert translate(said, {"--feature-scale", "--feature-offset"}) == (
        "a larger --feature-scale, or --feature-offset 128"
    )
    assert translate(said, {"--sharpness-scale"}) == "a larger --sharpness-scale, or `offset` = 128"


def test_the_library_does_not_speak_command_line() -> None:
    """No sentence outside cli names a flag, unless it quotes a whole command."""
    root = Path(__file__).parents[2] / "src" / "cushion"
    raised = re.compile(r"raise \w+\((?:[^()]|\([^()]*\))*\)", re.S)
    found = [
        f"{path.relative_to(root)}: {sentence}"
        for path in root.rglob("*.py")
        if "cli" not in path.relative_to(root).parts
        for sentence in raised.findall(path.read_text(encoding="utf-8"))
        if re.search(r"(?<![\w-])--[a-z{]", sentence) and "cushion " not in sentence
    ]
    assert found == []
