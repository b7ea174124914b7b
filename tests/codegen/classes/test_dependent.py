"""Which numbers of a constructor are told by others."""

from __future__ import annotations

import pytest

from fairhand.analysis.ops.module_form import ModuleForm
from fairhand.codegen.classes import module_classes
from fairhand.codegen.classes.constructor_arguments import (
    ANY,
    parameters,
    place,
    plain_size,
)


def written(labels: str, *rows: list[object], derives: bool = True) -> list[str]:
    """For each column the text that stands in it, "" for what is alike everywhere."""
    names = labels.split()
    texts = [""] * len(names)
    found = parameters([list(row) for row in rows], names, derives)
    names_of = {place(parameter): parameter.wish for parameter in found}
    for parameter in found:
        for column, text in parameter.texts(names_of).items():
            texts[column] = text
    return texts


MLP = "in_features out_features in_features out_features"


def test_widths_are_multiples_of_what_enters() -> None:
    rows = [64, 256, 256, 64], [128, 512, 512, 128]
    assert written(MLP, *rows) == [
        "in_features",
        "4 * in_features",
        "4 * in_features",
        "in_features",
    ]
    kept = ["in_features", "hidden", "hidden", "in_features"]
    assert written(MLP, *rows, derives=False) == kept
    # Not in all instances; and a factor that nobody multiplies by.
    assert written(MLP, rows[0], [128, 384, 384, 128]) == kept
    assert written(MLP, [64, 320, 320, 64], [128, 640, 640, 128]) == kept


def test_a_ratio_in_three_sizes_is_no_chance() -> None:
    labels = "in_channels out_channels in_channels out_channels"
    rows = [[24 + 8 * n, 16 * n, 16 * n, 64 * n] for n in (1, 2, 4)]
    assert written(labels, *rows) == ["in_channels", "width", "width", "4 * width"]
    assert written(labels, *rows[:2])[-1] == "out_channels"
    assert written(labels, *rows[:2], [56, 64, 64, 192])[-1] == "out_channels"
    halves = [[32, 16], [48, 24], [80, 40]]
    assert written("in_channels out_channels", *halves)[1] == "in_channels // 2"
    # What enters is told itself, whatever follows of it.
    assert written("in_channels out_channels", *(h[::-1] for h in halves)) == [
        "in_channels",
        "2 * in_channels",
    ]


JOINED = "in_channels out_channels in_channels"


def test_what_is_joined_or_cut_is_told_in_two_sizes() -> None:
    assert written(JOINED, [64, 16, 128], [128, 24, 256])[2] == "2 * in_channels"
    assert written(JOINED, [64, 16, 32], [128, 24, 64])[2] == "in_channels // 2"
    assert written(JOINED, [64, 16, 48], [64, 24, 72])[2] == "3 * out_channels"
    assert written(JOINED, [64, 16, 96], [96, 24, 128])[2] == "in_channels + 32"
    # What comes out of a layer is none of these.
    labels = "in_channels out_channels out_channels"
    assert written(labels, [64, 16, 128], [128, 24, 256])[2] == "out_channels"


def test_so_many_times_a_width_and_a_few_are_told_in_three_sizes() -> None:
    """As of a layer that gives queries, a context and a gate for each level."""
    labels, rows = "in_channels out_channels", ([96, 195], [192, 387], [384, 771])
    assert written(labels, *rows)[1] == "2 * in_channels + 3"
    assert written(labels, *rows[:2])[1] == "out_channels"
    assert written(labels, *rows, [768, 1540])[1] == "out_channels"


def test_one_width_joined_with_so_many_of_another() -> None:
    rows = [16, 16, 64], [64, 32, 160], [256, 64, 448]
    assert written(JOINED, *rows)[2] == "in_channels + 3 * out_channels"
    assert written(JOINED, [16, 8, 24], [64, 16, 80])[2] == "in_channels + out_channels"
    # Twice as much of each is no second size; one that differs is no law.
    assert written(JOINED, [32, 48, 176], [64, 96, 352])[2] == "width"
    assert written(JOINED, *rows, [512, 64, 705])[2] == "width"
    assert written(JOINED, [16, 16, 64], [64, 32, ANY], [8, 2, 14])[2] == "width"


def test_what_leaves_the_last_layer_is_called_so() -> None:
    labels = "in_channels in_channels out_channels"
    rows = [128, 80, 80], [256, 96, 96]
    assert written(labels, *rows) == ["in_channels", "out_channels", "out_channels"]


def test_a_count_of_a_class_inside_is_none_of_the_one_around_it() -> None:
    labels = "width2", "in_channels2_2", "hidden3", "size1", "norm2", "width"
    plain = ["width", "in_channels", "hidden", "size", "norm2", "width"]
    assert [plain_size(label) for label in labels] == plain


def test_a_multiple_in_many_places_keeps_its_name() -> None:
    labels = "in_channels out_channels in_channels out_channels groups in_channels"
    rows = [16, 64, 64, 64, 64, 64], [32, 128, 128, 128, 128, 128]
    assert written(labels, *rows) == ["in_channels", *["out_channels"] * 5]


@pytest.mark.parametrize(
    "labels, rows, text",
    [
        ("kernel_size padding", ([3, 1], [5, 2]), "kernel_size // 2"),
        ("kernel_size padding", ([3, 1], [5, 1], [5, 2]), "padding"),
        ("kernel_size stride", ([2, 2], [4, 4]), "kernel_size"),
        ("stride kernel_size", ([1, 1], [2, 2]), "kernel_size"),
        ("dilation padding", ([2, 2], [4, 4]), "dilation"),
        ("stride padding", ([1, 1], [2, 2]), "padding"),
        ("kernel_size padding", ([(3, 5), (1, 2)], [(5, 5), (2, 2)]), "padding"),
        # Small numbers may be equal by chance, those of stored tensors are not.
        ("heads size", ([2, 2], [4, 4]), "size"),
        ("heads dim", ([2, 2], [4, 4]), "heads"),
        ("heads size", ([2, 2], [4, 4], [8, 8]), "heads"),
        ("size1 dim", ([4, 16], [7, 49]), "size1 ** 2"),
        ("in_channels size", ([64, 64], [128, 128]), "in_channels"),
    ],
)
def test_what_one_number_tells_about_another(
    labels: str, rows: tuple[list[object], ...], text: str
) -> None:
    assert written(labels, *rows)[1] == text


def test_a_layer_that_some_lack_may_have_any_number() -> None:
    labels = "kernel_size padding"
    assert written(labels, [3, ANY], [5, 2], [7, 3])[1] == "kernel_size // 2"
    assert written(labels, [ANY, 1], [5, 2], [7, 3])[1] == "padding"


def test_flags_are_no_numbers() -> None:
    assert written("size residual", [1, True], [0, False])[1] == "residual"


def test_a_number_of_statements_that_is_a_layers_is_one() -> None:
    rows = [1, 1], [2, 2], [4, 4]
    assert written("dilation size1", *rows) == ["dilation", "dilation"]
    # In two sizes it may be chance.
    assert written("dilation size1", *rows[:2]) == ["dilation", "size1"]


@pytest.mark.parametrize(
    "holes, text",
    [
        ({}, "nn.Conv2d(8, 8, padding=1)"),
        ({2: "0"}, "nn.Conv2d(8, 8)"),  # a row, where it is called
        ({0: "width", 2: "padding"}, "nn.Conv2d(width, 8, padding=padding)"),
    ],
)
def test_a_default_is_not_printed(holes: dict[int, str], text: str) -> None:
    form = ModuleForm("nn.Conv2d", (8, 8), {"padding": (1, 0)}, {}, (), ())
    assert module_classes._layer_text(form, 0, holes) == (text, 3)
