"""The study of full syncs: its fit, its table, and the profiles that were made of its artefact."""

from dataclasses import asdict

import pytest

from evidence.live.sync_check import (
    ARTEFACT,
    CALIBRATION,
    PROFILES,
    content,
    fit,
    lines,
    predict,
    profile,
)
from evidence.live.sync_live import Measured
from evidence.live.trials import kept
from forecache.models.layouts.generations import generation
from forecache.models.over_time.cluster.sync import SyncWork

G = generation("redis", "7.0")
WORK = SyncWork(
    relay_ns_per_byte=2.0,
    store_ns_per_byte=3.0,
    load_key_ns=400.0,
    load_ns_per_byte=2.0,
    wait_ms=100.0,
)


def measured(trial):
    held = content(trial)
    seen = Measured(
        trial=trial,
        sync_s=1.0,
        primary_ns=held.file_bytes * WORK.relay_ns_per_byte,
        child_ns=1e9,
        replica_ns=held.file_bytes * WORK.store_ns_per_byte + WORK.load_s(held) * 1e9,
        save_s=1.0,
        load_ns=WORK.load_s(held) * 1e9,
        file_bytes=held.file_bytes,
    )
    return Measured(**{**asdict(seen), "trial": trial, "sync_s": predict(seen, WORK, G)["sync_s"]})


def test_a_fit_finds_the_work_that_trials_were_made_of():
    found = fit([measured(trial) for trial in CALIBRATION], G)
    assert asdict(found) == pytest.approx(asdict(WORK), rel=1e-6)


@pytest.mark.parametrize("name", ["redis", "valkey"])
def test_shipped_profiles_are_those_of_the_artefact(name):
    shipped = (PROFILES / f"{name}.yaml").read_text(encoding="utf-8")
    assert shipped == profile(name, kept(ARTEFACT)[name])


def test_the_table_has_every_trial():
    found = kept(ARTEFACT)
    rows = [line for line in lines(found) if " keys of " in line]
    assert len(rows) == sum(len(each["trials"]) for each in found.values())
