"""cushion_verify.py from the command line: exit codes, one sentence for bad input, nothing that
steers a terminal, nothing unpickled.
"""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from tests.certificates.case import altered, base, sealed

import cushion_verify

HERE = Path(__file__).parents[1] / "certificates"
SCRIPT = Path(__file__).parents[2] / "src" / "cushion_verify.py"
PLAIN = str(HERE / "valid" / "plain.cushion")
X, Y = (str(HERE / "samples" / f"halves.{part}.npy") for part in "xy")
DATA = ["--x", X, "--y", Y]


def ask(capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[int, str, str]:
    code = cushion_verify.main(list(argv))
    shown = capsys.readouterr()
    return code, shown.out, shown.err


def test_the_answer_comes_first_and_is_short(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = ask(capsys, PLAIN, *DATA)
    lines = out.splitlines()
    assert (code, err) == (0, "")
    assert lines[0] == "ok: arithmetic, message and replay all hold"
    assert lines[1].startswith("With probability 95 % over the draw of these 200 examples, g, the ")
    assert lines[1].endswith("of new ones.")
    assert lines[2] == "g errs on 29 of these 200 examples itself."
    assert lines[3].startswith("Assumed, as nobody can check it: the m examples are independent")
    assert len(lines) == 4


def test_percentages_are_rounded_up() -> None:
    assert cushion_verify.percent("0.067501") == "6.76 %"
    assert cushion_verify.percent("0.0675") == "6.75 %"
    assert cushion_verify.percent("0.000001") == "0.01 %"
    assert cushion_verify.float_up("0.1") >= 0.1
    rounded = cushion_verify.float_up("0.300000000000000001")
    assert cushion_verify.Decimal(rounded) >= cushion_verify.Decimal("0.300000000000000001")


def test_not_ok_is_1_and_json_says_the_same(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    wrong = tmp_path / "wrong.cushion"
    wrong.write_bytes(altered(base(), errors=base().claim.errors - 1))
    code, out, err = ask(capsys, str(wrong), *DATA)
    assert (code, err, out.startswith("NOT OK: ")) == (1, "", True)
    code, out, _ = ask(capsys, str(wrong), *DATA, "--json")
    assert (code, json.loads(out)["ok"], json.loads(out)["bound"]) == (1, False, None)
    code, out, _ = ask(capsys, PLAIN, *DATA, "--json")
    assert (code, json.loads(out)["ok"], json.loads(out)["replayed"]) == (0, True, ["sample"])
    code, out, _ = ask(capsys, PLAIN)
    assert (code, "no data was given" in out) == (1, True)


_REST = "'fortran_order': False"


def npy(header: str) -> bytes:
    """The beginning of an .npy file that says what it likes."""
    text = header.encode("latin1")
    text += b" " * (-(len(text) + 11) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text


def bad_files(folder: Path) -> dict[str, list[str]]:
    """What was given wrongly, by the words that it is refused with."""
    np.savez(folder / "both.npz", x=np.zeros((2, 4), np.uint8))
    for name, shape in (("vast", "(10000000000000000000000000,)"), ("true", "(True,)")):
        (folder / f"{name}.npy").write_bytes(npy(f"{{'descr': '<f4', 'shape': {shape}, {_REST}}}"))
    (folder / "unclosed.npy").write_bytes(npy("{'descr': '<f4', 'shape': (1L, \"\"\""))
    (folder / "zip.npy").write_bytes(b"PK\x03\x04garbage")
    os.mkfifo(folder / "pipe.npy")
    np.save(folder / "wraps.npy", np.full(200, 2**64 - 1, np.uint64))
    np.save(folder / "gaps.npy", np.zeros(200, np.dtype([("a", "u1"), ("b", "<f4")], align=True)))
    np.save(folder / "doubles.npy", np.zeros(200, [("a", "u1"), ("b", "<f8")]))
    np.save(folder / "objects.npy", np.array([{}, {}], dtype=object), allow_pickle=True)
    np.save(folder / "floats.npy", np.zeros(200))
    np.save(folder / "short.npy", np.zeros(199, np.int64))
    np.save(folder / "negative.npy", np.full(200, -1))
    np.save(folder / "one.npy", np.array(3))
    np.save(folder / "empty.npy", np.zeros((0, 4), np.uint8))
    (folder / "text.npy").write_text("no array")
    (folder / "nothing.npy").write_bytes(b"")
    (folder / "x.cushion").write_bytes(b"\x89cushion1\n")

    def there(name: str) -> str:
        return str(folder / name)

    return {
        "none.cushion: cannot be read": [there("none.cushion"), *DATA],
        "no plain file": [str(folder), *DATA],
        "ends before its claim": [there("x.cushion"), *DATA],
        "text.npy: cannot be read (it is no .npy file": [PLAIN, "--x", there("text.npy")],
        "nothing.npy: cannot be read": [PLAIN, "--x", there("nothing.npy")],
        "objects.npy: cannot be read": [PLAIN, "--x", there("objects.npy")],
        "both.npz: cannot be read (it is no .npy file": [PLAIN, "--x", there("both.npz")],
        "missing.npy: cannot be read (No such file": [PLAIN, "--x", there("missing.npy")],
        "give both x and y": [PLAIN, "--x", X],
        **{
            f"{name}.npy: cannot be read": [PLAIN, "--x", there(f"{name}.npy")]
            for name in ("vast", "true", "unclosed", "zip", "pipe")
        },
        "y must hold a class, from 0 on, for each": [PLAIN, "--x", X, "--y", there("wraps.npy")],
        "examples are uint8, float32 or int64": [PLAIN, "--x", there("gaps.npy"), "--y", Y],
        "x holds [('a', 'u1'), ('b', '<f8')]": [PLAIN, "--x", there("doubles.npy"), "--y", Y],
        "y must hold a class, from 0 on": [PLAIN, "--x", X, "--y", there("floats.npy")],
        "for each of 200 rows": [PLAIN, "--x", X, "--y", there("short.npy")],
        "y must hold a class": [PLAIN, "--x", X, "--y", there("negative.npy")],
        "x must have a row for each": [PLAIN, "--x", there("one.npy"), "--y", Y],
        "and at least one": [PLAIN, "--x", there("empty.npy"), "--y", there("short.npy")],
        "says nothing about a net f": [PLAIN, *DATA, "--unlabelled", X],
        "give both its answers and": [
            str(HERE / "valid" / "transfer.cushion"),
            *DATA,
            *("--unlabelled", str(HERE / "samples" / "halves-unlabelled.x.npy")),
        ],
        "finite scores, [90, classes], of the unlabelled inputs": [
            str(HERE / "valid" / "transfer.cushion"),
            *DATA,
            *("--unlabelled", str(HERE / "samples" / "halves-unlabelled.x.npy"), "--answers", X),
        ],
    }


def test_bad_input_gets_one_sentence(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for words, argv in bad_files(tmp_path).items():
        code, out, err = ask(capsys, *argv)
        assert (code, out) == (2, ""), words
        assert words in err
        assert err.startswith("cushion-verify: ")
        assert len(err.splitlines()) == 1


def test_nothing_in_a_file_or_a_name_steers_the_terminal(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    plain = base()
    text = sealed(
        json.dumps(
            {**plain.claim.to_json(), "kind": "\x1b[2J\u202e"},
            sort_keys=True,
            separators=(",", ":"),
            ensure_ascii=False,
        ),
        plain.message,
    )
    for name in ("steers.cushion", "\x1b[31m\u202ename\n.cushion"):
        (tmp_path / name).write_bytes(text)
        code, out, err = ask(capsys, str(tmp_path / name), *DATA)
        assert (code, out) == (2, "")
        assert not set(err) & set("\x1b\u202e\x9b")
        assert len(err.splitlines()) <= 2
    noted = altered(plain, made_with={"\x1b[2J": "\x1b[2J"})
    (tmp_path / "notes.cushion").write_bytes(noted)
    for more in ([], ["--json"]):
        code, out, _ = ask(capsys, str(tmp_path / "notes.cushion"), *DATA, *more)
        assert (code, "\x1b" in out) == (0, False)


@pytest.mark.parametrize("code_point", [0, 9, 10, 31, 127, 0x85, 0x9F, 0x61C, 0x200E, 0x200F])
@pytest.mark.parametrize("shift", [0, 0x2028, 0x202A, 0x202E, 0x2066, 0x2069])
def test_what_is_not_printable_is_listed(code_point: int, shift: int) -> None:
    for bad in (chr(code_point), chr(shift or code_point)):
        with pytest.raises(cushion_verify.Malformed):
            cushion_verify.printable(f"a{bad}b", "a name")


def test_everything_else_is_printable() -> None:
    every = "".join(
        chr(c)
        for c in range(32, 0x110000)
        if not (127 <= c <= 159 or 0xD800 <= c <= 0xDFFF or 0x2028 <= c <= 0x202E)
        and not (0x2066 <= c <= 0x2069 or c in (0x61C, 0x200E, 0x200F))
    )
    assert cushion_verify.printable(every, "a name") == every


def test_a_narrow_terminal_and_one_that_stops_reading() -> None:
    command = [sys.executable, str(SCRIPT), PLAIN, *DATA]
    ascii_only = {**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    shown = subprocess.run(command, capture_output=True, env=ascii_only)
    assert (shown.returncode, shown.stderr) == (0, b"")
    assert b"\\u03b4 was fixed in advance" in shown.stdout
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.close()
    _, err = process.communicate()
    assert err == b""


def test_the_script_is_installed_beside_the_package() -> None:
    import tomllib

    settings = tomllib.loads((SCRIPT.parents[1] / "pyproject.toml").read_text(encoding="utf-8"))
    assert settings["project"]["scripts"]["cushion-verify"] == "cushion_verify:main"
    shipped = settings["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    assert "src/cushion_verify.py" in shipped


def test_readers_take_what_they_say_and_nothing_near_it() -> None:
    whole, record = cushion_verify.whole(0, 5), cushion_verify.record
    wrong: list[tuple[cushion_verify.Reader, list[object]]] = [
        (whole, [True, False, 1.0, "1", None, -1, 6, [1]]),
        (cushion_verify.text, [1, None, ["a"], b"a"]),
        (cushion_verify.exactly(80), [80.0, "80", True, None]),
        (cushion_verify.failure, ["0.0", "0.00", "0.51", "0.6", "1.0", ".5", "0.5 ", "0.", 0.5]),
        (cushion_verify.probability, ["1.01", "2.0", "1", "0", "-0.1", "1e-3", "0." + "1" * 19]),
        (cushion_verify.tolerance, ["0.0", "0.000", "00.1", "1", "-1.0", "1e3", "1." + "0" * 19]),
        (cushion_verify.fingerprint, ["a" * 63, "a" * 65, "A" * 64, "g" * 64, 7]),
        (cushion_verify.listed(whole), [(1,), {"a": 1}, [1, True], [6], "12"]),
        (cushion_verify.maybe(whole), [True, 6, "1"]),
        (record({"a": whole}), [{}, {"a": 1, "b": 1}, {"a": True}, [1], {"b": 1}]),
        (record({"a": whole, "b": whole}, {"b": 0}), [{}, {"b": 1}, {"a": 1, "b": None}]),
        (cushion_verify.notes, [{"a": {}}, {"a": []}, [], "a"]),
    ]
    for reader, values in wrong:
        for value in values:
            with pytest.raises(cushion_verify.Malformed):
                reader(value, "a field")
    for text in ("0.5", "0.500", "0.49", "0.000000000000000001"):
        assert cushion_verify.failure(text, "δ") == text
    for text in ("0.001", "1.0", "999999999999999999.5", "10.25"):
        assert cushion_verify.tolerance(text, "it") == text
    assert record({"a": whole, "b": whole}, {"b": 0})({"a": 3}, "it").b == 0
    assert cushion_verify.listed(whole)([1, 2], "it") == (1, 2)
    assert cushion_verify.maybe(whole)(None, "it") is None
