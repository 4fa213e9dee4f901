# SPDX-License-Identifier: GPL-2.0
"""Tests of the tests: they run on any machine, without a kernel module."""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "e2e"))
