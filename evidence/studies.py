"""Every study of this project, in the order in which `make accuracy` runs them.

A new one is a row here: a function that measures and returns the files of its artefact, and one
that returns its pages from what lies there. Studies without an artefact are pages of docs/ that are
written from code; those without a page are quoted in docs/models.md or write what the models read.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from .accuracy import accuracy_page, observed
from .articles import claims, claims_page
from .articles import page as articles
from .counts import command_counts, large_command_counts, shipped
from .documents import cli, hosts, scenarios
from .figures import accuracy_figures
from .harness import EMBEDDED, ROOT, TWO_CPUS, Files, Study
from .live import (
    crowded,
    footprint_check,
    large_commands_check,
    large_commands_page,
    memcached_check,
    migration_check,
    quotas,
)
from .overcommit import fleet_study
from .serverless import search
from .serverless import study as serverless


def _accuracy() -> Files:
    return {**accuracy_figures.figures(), **accuracy_page.pages()}


def _document(path: str, page: Callable[[], str]) -> Callable[[], Files]:
    return lambda: {Path(path): page()}


_ALL: tuple[Study, ...] = (
    Study(
        "command-counts",
        "instructions of commands beyond GET and SET, counted in valgrind",
        duration="20 minutes",
        needs=("valgrind", EMBEDDED),
        artefact=f"{command_counts.FOLDER}/",
        measure=command_counts.artefact,
    ),
    Study(
        "command-work",
        "what these counts say of every shipped engine",
        artefact=f"{command_counts.ENGINES}/",
        measure=command_counts.profiles,
    ),
    Study(
        "large-command-counts",
        "instructions of large commands by member, counted in valgrind",
        duration="20 minutes",
        needs=("valgrind", "redis-server", "redis-cli"),
        artefact=f"{large_command_counts.FOLDER}/",
        measure=large_command_counts.artefact,
    ),
    Study(
        "large-command-work",
        "what these counts say of every engine that runs large commands",
        artefact=f"{large_command_counts.ENGINES}/",
        measure=large_command_counts.profiles,
    ),
    Study(
        "observations",
        "CPU time, throughput and latency of real engines on this host, which is profiled first",
        duration="15 minutes an engine",
        needs=(EMBEDDED,),
        artefact=f"{shipped.BUNDLES}/",
        measure=observed.observations,
    ),
    Study(
        "calibration",
        "the work of shipped engines, fitted to the committed observations, and its errors",
        duration="5 minutes",
        artefact="docs/accuracy/live-*.json, models/engines/",
        page="docs/accuracy.md, README.md",
        measure=shipped.artefact,
        pages=_accuracy,
    ),
    Study(
        "published",
        "measurements that others published, predicted",
        duration="10 minutes",
        artefact="docs/accuracy/published-*.json",
        page="docs/datasets.md, docs/accuracy.md, README.md",
        measure=observed.published,
        pages=_accuracy,
    ),
    Study(
        "footprint",
        "used memory of live engines by population of keys, and published totals",
        duration="2 minutes",
        needs=(EMBEDDED,),
        artefact=str(footprint_check.ARTEFACT),
        page="docs/accuracy.md",
        measure=footprint_check.artefact,
        pages=_accuracy,
    ),
    Study(
        "memcached",
        "hit rate of live Memcached nodes after a change of their list",
        duration="2 minutes",
        needs=("memcached",),
        artefact=str(memcached_check.ARTEFACT),
        page="docs/accuracy.md",
        measure=memcached_check.artefact,
        pages=_accuracy,
    ),
    Study(
        "set-operations",
        "published durations of set operations of millions of members, predicted",
        artefact=str(large_commands_page.PUBLISHED),
        page=str(large_commands_page.PAGE),
        measure=large_commands_page.artefact,
        pages=large_commands_page.pages,
    ),
    Study(
        "large-commands",
        "the same at a hundredth of the size on live engines",
        duration="10 minutes",
        needs=("redis-server", "redis-cli", EMBEDDED),
        artefact=str(large_commands_check.OUT),
        page=str(large_commands_page.PAGE),
        measure=large_commands_check.artefact,
        pages=large_commands_page.pages,
    ),
    Study(
        "large-commands-predicted",
        "what was measured of large commands last, predicted anew",
        artefact=str(large_commands_check.OUT),
        page=str(large_commands_page.PAGE),
        measure=large_commands_check.again,
        pages=large_commands_page.pages,
    ),
    Study(
        "migration",
        "moves of slots between two live servers",
        duration="2 minutes",
        needs=("redis-server", EMBEDDED),
        artefact=str(migration_check.ARTEFACT),
        page=str(migration_check.PAGE),
        measure=migration_check.artefact,
        pages=migration_check.pages,
    ),
    Study(
        "migration-work",
        "what these moves say of the CPU time that moving slots takes",
        artefact=f"{migration_check.PROFILES}/",
        measure=migration_check.profiles,
    ),
    Study(
        "crowded",
        "throughput of engines whose threads share two cores (docs/models.md)",
        duration="2 minutes",
        needs=(TWO_CPUS, "redis-server"),
        artefact=f"{crowded.FOLDER}/",
        measure=crowded.artefact,
    ),
    Study(
        "quotas",
        "throughput and latency of engines under CPU quotas (docs/models.md)",
        duration="2 minutes",
        needs=(TWO_CPUS, ROOT, "redis-server"),
        artefact=str(quotas.ARTEFACT),
        measure=quotas.artefact,
    ),
    Study(
        "claims",
        "what Amazon claims of ElastiCache for Redis 7.0 and 7.1, predicted",
        duration="5 minutes",
        artefact=str(claims.ARTEFACT),
        page="docs/claims.md",
        measure=claims.artefact,
        pages=claims_page.pages,
    ),
    Study(
        "overcommit",
        "published live migrations, and policies of fleets that overcommit memory",
        duration="half an hour",
        artefact=str(fleet_study.ARTEFACT),
        page="docs/overcommit.md",
        measure=fleet_study.artefact,
        pages=fleet_study.pages,
    ),
    Study(
        "serverless-rules",
        "which rules of a serverless cache fit all its published tests",
        duration="an hour",
        artefact=str(search.ARTEFACT),
        page="docs/serverless.md",
        measure=search.artefact,
        pages=serverless.pages,
    ),
    Study(
        "serverless",
        "a published ramp of two versions of a serverless cache, and three tests of it",
        duration="10 minutes",
        artefact=str(serverless.ARTEFACT),
        page="docs/serverless.md",
        measure=serverless.artefact,
        pages=serverless.pages,
    ),
    Study(
        "articles",
        "every claim of five articles",
        duration="15 minutes",
        artefact=str(articles.ARTEFACT),
        page=str(articles.PAGE),
        measure=articles.artefact,
        pages=articles.pages,
    ),
    Study(
        "hosts",
        "the catalogue of hosts and instances",
        page="docs/hosts.md",
        pages=_document("docs/hosts.md", hosts.page),
    ),
    Study(
        "cli",
        "verbs and their options",
        page="docs/cli.md",
        pages=_document("docs/cli.md", cli.page),
    ),
    Study(
        "scenario",
        "fields of a scenario",
        page="docs/scenario.md",
        pages=_document("docs/scenario.md", scenarios.page),
    ),
)

STUDIES = {study.name: study for study in _ALL}
