"""Fixtures of the data tests: worlds in which the only package clients are fake."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.data.fake_clients import World


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    return World(tmp_path, monkeypatch)


@pytest.fixture
def debian(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    return World(tmp_path, monkeypatch, client="apt")
