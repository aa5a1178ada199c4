"""Every study of this project, in the order in which `make accuracy` runs them.

A new one is a row here: a function that measures and returns the files of its artefact, and one
that returns its pages from what lies there. Both are named as `module:function` and imported when
they are called. Studies without an artefact are pages of docs/ that are written from code; those
without a page are quoted in docs/models.md or write what the models read.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from .harness import EMBEDDED, REASON, ROOT, TWO_CPUS, Files, Late, Study


def _accuracy() -> Files:
    figures, pages = Late("figures.accuracy_figures:figures"), Late("accuracy.accuracy_page:pages")
    return {**figures(), **pages()}


def _document(path: str, module: str) -> Callable[[], Files]:
    return lambda: {Path(path): Late(f"documents.{module}:page")()}


_ALL: tuple[Study, ...] = (
    Study(
        "command-counts",
        "instructions of commands beyond GET and SET, counted in valgrind",
        duration="20 minutes",
        needs=("valgrind", EMBEDDED),
        artefact="evidence/counts/command_counts/",
        measure=Late("counts.command_counts:artefact"),
    ),
    Study(
        "command-work",
        "what these counts say of every shipped engine",
        artefact="models/engines/",
        measure=Late("counts.command_counts:profiles"),
    ),
    Study(
        "load-generators",
        "instructions and CPU time of benchmark tools on this host, which is profiled first",
        duration="5 minutes a tool",
        needs=("valgrind", EMBEDDED, TWO_CPUS),
        artefact="evidence/counts/tool_counts.json",
        measure=Late("counts.tool_counts:artefact"),
    ),
    Study(
        "load-generator-work",
        "what these say of the shipped load generators",
        artefact="models/engines/generators/",
        measure=Late("counts.tool_counts:profiles"),
    ),
    Study(
        "large-command-counts",
        "instructions of large commands by member, counted in valgrind",
        duration="20 minutes",
        needs=("valgrind", "redis-server", "redis-cli"),
        artefact="evidence/counts/large_command_counts/",
        measure=Late("counts.large_command_counts:artefact"),
    ),
    Study(
        "large-command-work",
        "what these counts say of every engine that runs large commands",
        artefact="models/over_time/large_commands/engines/",
        measure=Late("counts.large_command_counts:profiles"),
    ),
    Study(
        "observations",
        "CPU time, throughput and latency of real engines on this host, which is profiled first",
        duration="15 minutes an engine",
        needs=(EMBEDDED,),
        artefact="evidence/bundles/",
        measure=Late("accuracy.observed:observations"),
    ),
    Study(
        "calibration",
        "the work of shipped engines, fitted to the committed observations, and its errors",
        duration="5 minutes",
        artefact="docs/accuracy/live-*.json, models/engines/",
        page="docs/accuracy.md, README.md",
        measure=Late("counts.shipped:artefact"),
        pages=_accuracy,
    ),
    Study(
        "published",
        "measurements that others published, predicted",
        duration="10 minutes",
        artefact="docs/accuracy/published-*.json",
        page="docs/datasets.md, docs/accuracy.md, README.md",
        measure=Late("accuracy.observed:published"),
        pages=_accuracy,
    ),
    Study(
        "gate",
        "held-out points of live engines and published datasets, for the gate of .ci/run",
        duration="5 minutes",
        needs=(REASON,),
        artefact="docs/accuracy/gate.jsonl, docs/accuracy/history.jsonl",
        page="docs/scores.md",
        measure=Late("gate.reference:artefact"),
        pages=_accuracy,
    ),
    Study(
        "footprint",
        "used memory of live engines by population of keys, and published totals",
        duration="2 minutes",
        needs=(EMBEDDED,),
        artefact="docs/accuracy/footprint.json",
        page="docs/accuracy.md",
        measure=Late("live.footprint_check:artefact"),
        pages=_accuracy,
    ),
    Study(
        "memcached",
        "hit rate of live Memcached nodes after a change of their list",
        duration="2 minutes",
        needs=("memcached",),
        artefact="docs/accuracy/memcached.json",
        page="docs/accuracy.md",
        measure=Late("live.memcached_check:artefact"),
        pages=_accuracy,
    ),
    Study(
        "set-operations",
        "published durations of set operations of millions of members, predicted",
        artefact="docs/accuracy/set-operations.json",
        page="docs/fleet.md",
        measure=Late("live.large_commands_page:artefact"),
        pages=Late("live.large_commands_page:pages"),
    ),
    Study(
        "large-commands",
        "the same at a hundredth of the size on live engines, Redis 2.8.19 among those in ENGINES",
        duration="10 minutes",
        needs=("redis-server", "redis-cli", EMBEDDED),
        artefact="docs/accuracy/large-commands.json",
        page="docs/fleet.md",
        measure=Late("live.large_commands_check:artefact"),
        pages=Late("live.large_commands_page:pages"),
    ),
    Study(
        "large-commands-predicted",
        "what was measured of large commands last, predicted anew",
        artefact="docs/accuracy/large-commands.json",
        page="docs/fleet.md",
        measure=Late("live.large_commands_check:again"),
        pages=Late("live.large_commands_page:pages"),
    ),
    Study(
        "migration",
        "moves of slots between two live servers",
        duration="2 minutes",
        needs=("redis-server", EMBEDDED),
        artefact="docs/accuracy/migration/trials.json",
        page="docs/fleet.md",
        measure=Late("live.migration_check:artefact"),
        pages=Late("live.migration_check:pages"),
    ),
    Study(
        "migration-work",
        "what these moves say of the CPU time that moving slots takes",
        artefact="models/over_time/cluster/slots/migration_work/",
        measure=Late("live.migration_check:profiles"),
    ),
    Study(
        "generations",
        "engines of every generation on this host, driven by benchmark tools at random points",
        duration="5 minutes an engine",
        needs=("valgrind", TWO_CPUS),
        artefact="evidence/generations/, docs/accuracy/generations.json",
        page="docs/generations.md",
        measure=Late("live.generations:measure"),
        pages=Late("live.generations_page:pages"),
    ),
    Study(
        "generations-predicted",
        "what was measured of them last, predicted anew",
        duration="10 minutes",
        artefact="docs/accuracy/generations.json",
        page="docs/generations.md",
        measure=Late("live.generations:predict"),
        pages=Late("live.generations_page:pages"),
    ),
    Study(
        "memaslap",
        "Memcached on this host, driven by memaslap at random points",
        duration="10 minutes",
        needs=(TWO_CPUS,),
        artefact="docs/accuracy/memaslap.json",
        page="docs/generations.md",
        measure=Late("live.memaslap:measure"),
        pages=Late("live.generations_page:pages"),
    ),
    Study(
        "memaslap-predicted",
        "what was measured of it last, predicted anew",
        duration="seconds",
        artefact="docs/accuracy/memaslap.json",
        page="docs/generations.md",
        measure=Late("live.memaslap:predict"),
        pages=Late("live.generations_page:pages"),
    ),
    Study(
        "threads",
        "what each thread of engines with I/O threads computes, on this host",
        duration="10 minutes",
        needs=(TWO_CPUS,),
        artefact="evidence/threads/, docs/accuracy/threads.json",
        page="docs/generations.md",
        measure=Late("live.threads:measure"),
        pages=Late("live.generations_page:pages"),
    ),
    Study(
        "threads-predicted",
        "what was measured of them last, predicted anew",
        duration="seconds",
        artefact="docs/accuracy/threads.json",
        page="docs/generations.md",
        measure=Late("live.threads:predict"),
        pages=Late("live.generations_page:pages"),
    ),
    Study(
        "crowded",
        "throughput of engines whose threads share two cores (docs/models.md)",
        duration="2 minutes",
        needs=(TWO_CPUS, "redis-server"),
        artefact="docs/accuracy/crowded/",
        measure=Late("live.crowded:artefact"),
    ),
    Study(
        "quotas",
        "throughput and latency of engines under CPU quotas (docs/models.md)",
        duration="2 minutes",
        needs=(TWO_CPUS, ROOT, "redis-server"),
        artefact="docs/accuracy/quotas.json",
        measure=Late("live.quotas:artefact"),
    ),
    Study(
        "claims",
        "what Amazon claims of ElastiCache for Redis 7.0 and 7.1, predicted",
        duration="5 minutes",
        artefact="docs/accuracy/claims-elasticache.json",
        page="docs/claims.md",
        measure=Late("articles.claims:artefact"),
        pages=Late("articles.claims_page:pages"),
    ),
    Study(
        "overcommit",
        "published live migrations, and policies of fleets that overcommit memory",
        duration="half an hour",
        artefact="docs/accuracy/overcommit.json",
        page="docs/overcommit.md",
        measure=Late("overcommit.fleet_study:artefact"),
        pages=Late("overcommit.fleet_study:pages"),
    ),
    Study(
        "serverless-rules",
        "which rules of a serverless cache fit all its published tests",
        duration="an hour",
        artefact="docs/accuracy/serverless_rules.json",
        page="docs/serverless.md",
        measure=Late("serverless.search:artefact"),
        pages=Late("serverless.study:pages"),
    ),
    Study(
        "serverless",
        "a published ramp of two versions of a serverless cache, and three tests of it",
        duration="10 minutes",
        artefact="docs/accuracy/serverless.json",
        page="docs/serverless.md",
        measure=Late("serverless.study:artefact"),
        pages=Late("serverless.study:pages"),
    ),
    Study(
        "articles",
        "every claim of five articles",
        duration="15 minutes",
        artefact="calibration/validate/articles.json",
        page="docs/articles.md",
        measure=Late("articles.page:artefact"),
        pages=Late("articles.page:pages"),
    ),
    Study(
        "hosts",
        "the catalogue of hosts and instances",
        page="docs/hosts.md",
        pages=_document("docs/hosts.md", "hosts"),
    ),
    Study(
        "cli",
        "verbs and their options",
        page="docs/cli.md",
        pages=_document("docs/cli.md", "cli"),
    ),
    Study(
        "scenario",
        "fields of a scenario",
        page="docs/scenario.md",
        pages=_document("docs/scenario.md", "scenarios"),
    ),
)

STUDIES = {study.name: study for study in _ALL}
