"""Write two small models that are no network of layers, as ONNX.

    python examples/small_models.py

wine_pipeline.onnx is a pipeline of scikit-learn, fitted to the wines that come with it
and written by skl2onnx: filled gaps, scaling, principal components, boosted trees.
page_rank.onnx is a function of torch.jit.script with a loop that ends when it is done.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from skl2onnx import to_onnx
from sklearn.datasets import load_wine
from sklearn.decomposition import PCA
from sklearn.ensemble import GradientBoostingClassifier
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import Tensor, nn

HERE = Path(__file__).parent


class PageRank(nn.Module):
    """Where readers who follow links at random are: a share for each page.

    `links[i, j]` is 1 where page i links to page j; `damping` is the share of readers
    who follow a link, others turn to any page. Rounds go on until no more than
    `tolerance` moves, or for `most` rounds.
    """

    def forward(
        self, links: Tensor, damping: Tensor, tolerance: Tensor, most: Tensor
    ) -> tuple[Tensor, Tensor]:
        pages = links.size(0)
        out = links.sum(dim=1, keepdim=True)
        anywhere = torch.full_like(links, 1.0) / pages
        step = torch.where(out > 0, links / out.clamp(min=1.0), anywhere)
        rank = torch.full_like(links[0], 1.0) / pages
        change = torch.full_like(tolerance, 1.0)
        rounds = 0
        while bool(change > tolerance) and rounds < int(most):
            moved = damping * (rank @ step) + (1.0 - damping) / pages
            change = (moved - rank).abs().sum()
            rank = moved
            rounds += 1
        return rank, change


def page_rank() -> None:
    names = ["links", "damping", "tolerance", "most"]
    links = torch.eye(5).roll(1, 0)
    torch.onnx.export(
        torch.jit.script(PageRank()),
        (links, torch.tensor(0.85), torch.tensor(1e-6), torch.tensor(100)),
        HERE / "page_rank.onnx",
        dynamo=False,
        input_names=names,
        output_names=["rank", "change"],
        dynamic_axes={"links": {0: "pages", 1: "pages"}, "rank": {0: "pages"}},
    )


def wine_pipeline() -> None:
    wines = load_wine()
    features = wines.data.astype(np.float32)
    trees = GradientBoostingClassifier(n_estimators=10, random_state=0)
    pipeline = make_pipeline(SimpleImputer(), StandardScaler(), PCA(6), trees)
    pipeline.fit(features, wines.target)
    # Types of columns without names of sizes, and an array in place of a list of maps.
    model = to_onnx(pipeline, features[:1], options={"zipmap": False}, target_opset=20)
    (HERE / "wine_pipeline.onnx").write_bytes(model.SerializeToString())


if __name__ == "__main__":
    page_rank()
    wine_pipeline()
