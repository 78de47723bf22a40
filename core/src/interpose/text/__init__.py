"""Middlewares that change text, also where it crosses chunks."""

from __future__ import annotations

from interpose.text.covers import Covers as Covers
from interpose.text.lanes import Scan as Scan
from interpose.text.patterns import PatternTransform as PatternTransform
from interpose.text.transform import TextTransform as TextTransform

__all__ = ["Covers", "PatternTransform", "Scan", "TextTransform"]
