"""The definition of attention as a whole: the modules that register its steps, in the order of the pipeline."""

from __future__ import annotations

from attncli.pipeline import projections  # isort: skip
from attncli.pipeline import norms  # isort: skip
from attncli.pipeline import positions  # isort: skip
from attncli.pipeline import logits  # isort: skip
from attncli.pipeline import shares  # isort: skip
from attncli.pipeline import averages  # isort: skip

__all__ = ["averages", "logits", "norms", "positions", "projections", "shares"]
