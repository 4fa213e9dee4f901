# SPDX-License-Identifier: GPL-2.0
"""Tests of the tests: they run on any machine, without a kernel module."""

import os
import sys

HERE = os.path.dirname(__file__)
sys.path.insert(0, os.path.join(HERE, "..", "e2e"))
sys.path.insert(0, os.path.join(HERE, "..", "..", "scripts", "lib"))
