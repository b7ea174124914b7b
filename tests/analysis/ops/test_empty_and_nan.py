"""Batches of nothing, and numbers that aren't there, in helpers of emitted modules."""

from __future__ import annotations

from pathlib import Path

import onnx
import torch

from fairhand import compile as compile_model
from fairhand.analysis.ops.helpers.attention import masked_attention, rotary_embedding
from fairhand.analysis.ops.helpers.linear_attention import linear_attention
from fairhand.analysis.ops.helpers.recurrent import run_gru, run_lstm, unpack_rnn
from fairhand.analysis.ops.helpers.signal import dft, stft


def test_empty_batches() -> None:
    x, angles = torch.zeros(0, 5, 12), torch.zeros(0, 5, 2)
    assert masked_attention(x, x, x, heads=(3, 3))[0].shape == (0, 5, 12)
    assert rotary_embedding(x, angles, angles, heads=3).shape == (0, 5, 12)
    assert linear_attention(x, x, x, (3, 3), 1.0, decay=x)[0].shape == (0, 5, 12)
    states = unpack_rnn((torch.zeros(5, 0, 8), torch.zeros(2, 0, 4)), directions=2)
    assert states[0].shape == (5, 2, 0, 4)
    assert dft(torch.zeros(0, 8, 1), 1, onesided=True).shape == (0, 5, 2)
    assert stft(torch.zeros(0, 32), 8, 16).shape == (0, 3, 9, 2)


def test_frames_are_transformed_as_by_torch() -> None:
    x, window = torch.randn(2, 32), torch.hann_window(16)
    want = torch.fft.rfft(x.unfold(1, 16, 8) * window)
    torch.testing.assert_close(stft(x, 8, 16, window), torch.view_as_real(want))
    pairs = torch.stack([x, 2 * x], dim=2)
    got = stft(pairs, 8, 16, window, onesided=False)
    both = torch.fft.fft(torch.complex(x, 2 * x).unfold(1, 16, 8) * window)
    torch.testing.assert_close(got, torch.view_as_real(both))


def test_what_stands_behind_the_end_of_a_sequence() -> None:
    """ONNX Runtime doesn't read it, so that NaN there is no NaN in a result."""
    x = torch.randn(4, 2, 3)
    x[2:, 1] = torch.nan
    lengths = torch.tensor([4, 2])
    w, r = torch.randn(1, 12, 3), torch.randn(1, 12, 4)
    for backwards in (False, True):
        for y in run_gru(x, w, r, lengths=lengths, reverse=(backwards,)):
            assert y.isfinite().all()
        w, r = torch.randn(1, 16, 3), torch.randn(1, 16, 4)
        for y in run_lstm(x, w, r, lengths=lengths, reverse=(backwards,)):
            assert y.isfinite().all()
        w, r = torch.randn(1, 12, 3), torch.randn(1, 12, 4)


def test_means_over_padding_of_open_sizes(tmp_path: Path) -> None:
    model = onnx.parser.parse_model("""<ir_version: 8, opset_import: ["" : 17]>
    g (float[n, 2, h, w] x) => (float[n, 2, a, b] y) {
        y = AveragePool<kernel_shape = [3, 2], strides = [2, 3],
                        auto_pad = "SAME_LOWER">(x)
    }""")
    compile_model(model, tmp_path / "pooled")


def test_a_mask_counts_ones(tmp_path: Path) -> None:
    few, numbers = (", ".join(str(i % 7 / 4) for i in range(n)) for n in (14, 24))
    model = onnx.parser.parse_model(
        f"""<ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]>
    g (int32[n, s] ids, int32[n, s] given) => (float[n, s, 2] y, int32[n] count)
    <float[7, 2] words = {{{few}}}, float[12, 2] rows = {{{numbers}}},
     float[2] scale = {{1, 2}}, float[2] shift = {{0, 1}}>
    {{ y, count = com.microsoft.EmbedLayerNormalization
        (ids, , words, rows, , scale, shift, given) }}"""
    )
    compile_model(model, tmp_path / "embedded")
