"""Of many cases that watch one thing: which of them a commit tests."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

# The file and the test of families, and of how many cases a commit tests one. The last
# are of those that take ten seconds and more.
FAMILIES: dict[tuple[str, str | None], int] = {
    ("analysis/ops/test_ml.py", "test_operator"): 4,
    ("analysis/ops/test_operators.py", "test_operator"): 3,
    ("analysis/ops/test_versions.py", "test_a_version_means_what_it_did"): 3,
    ("codegen/kernels/launch/test_tuning.py", None): 3,
    ("codegen/kernels/test_half_precision.py", None): 3,
    ("codegen/kernels/test_kernels.py", "test_group_on_odd_sizes"): 4,
    ("codegen/kernels/test_kernels.py", "test_kernels_of_a_network"): 4,
    ("codegen/statements/test_picking.py", "test_places_in_their_order"): 3,
    ("rewrites/proof/test_denotations.py", None): 4,
    ("rewrites/proof/test_denotations_congruent.py", None): 4,
    ("rewrites/second_opinion/test_operators.py", None): 3,
    ("rewrites/test_adapters.py", "test_adapted_nodes_compute_the_same"): 4,
    **dict.fromkeys(
        (
            ("analysis/ops/test_ml.py", "test_words_and_maps_are_verified"),
            (
                "analysis/repeats/test_find_blocks.py",
                "test_without_names_there_are_as_many",
            ),
            (
                "analysis/shapes/test_index_functions.py",
                "test_elements_are_what_onnx_runtime_computes",
            ),
            (
                "codegen/export/test_onnx_file.py",
                "test_a_recurrent_layer_keeps_its_open_length",
            ),
            (
                "codegen/export/test_onnx_file.py",
                "test_what_cant_be_exported_is_said_and_nothing_written",
            ),
            (
                "codegen/generation/test_generate.py",
                "test_greedy_tokens_are_those_of_the_original",
            ),
            (
                "codegen/generation/test_room.py",
                "test_a_prompt_is_read_whole_where_one_token_alone_comes_behind_others",
            ),
            (
                "codegen/parallel/test_check_package.py",
                "test_devices_hold_and_write_their_heads_of_it",
            ),
            (
                "codegen/parallel/test_check_package.py",
                "test_heads_of_all_rows_are_cut_within_each_row",
            ),
            (
                "codegen/parallel/test_parallel.py",
                "test_a_plan_is_data_and_model_py_needs_no_edit",
            ),
            (
                "codegen/validate/test_validate.py",
                "test_a_package_is_validated_again_as_it_is_now",
            ),
            (
                "codegen/validate/test_validate.py",
                "test_an_edit_that_hangs_on_more_than_inputs_is_not_validated",
            ),
            (
                "codegen/validate/test_validate.py",
                "test_an_edit_that_some_sizes_take_is_refused",
            ),
            (
                "codegen/validate/test_validate.py",
                "test_an_edit_to_other_calls_is_accepted_by_results",
            ),
            ("conformance/test_decoders.py", "test_a_small_decoder"),
        ),
        3,
    ),
}


@cache
def _commit() -> str:
    """The one that is checked out; the same for ever where there is no repository."""
    command = ["git", "rev-parse", "HEAD"]
    try:
        done = subprocess.run(command, cwd=Path(__file__).parent, capture_output=True)
    except OSError:
        return ""
    return done.stdout.decode() if done.returncode == 0 else ""


def drawn(name: str, one_in: int) -> list[pytest.MarkDecorator]:
    """Marks of a case: none for one in so many, which each commit draws anew; the
    others are slow."""
    number = int.from_bytes(sha256(f"{_commit()} {name}".encode()).digest()[:8], "big")
    return [] if number % one_in == 0 else [pytest.mark.slow]


def draw_families(items: Iterable[pytest.Item], tests: Path) -> None:
    """Mark the cases of FAMILIES that this commit doesn't test."""
    for item in items:
        file = item.path.relative_to(tests).as_posix()
        name = getattr(item, "originalname", item.name)
        every = hasattr(item, "callspec") and FAMILIES.get((file, None), 1)
        for mark in drawn(item.nodeid, FAMILIES.get((file, name), every or 1)):
            item.add_marker(mark)


def some(names: Iterable[Any], one_in: int) -> list[Any]:
    """Parameters of a test: one in so many of these names, the others are slow."""
    return [pytest.param(name, marks=drawn(str(name), one_in)) for name in names]
