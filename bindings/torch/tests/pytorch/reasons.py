# SPDX-License-Identifier: Apache-2.0
"""The tests that PyTorch has for gloo alone and that do not apply to another backend, with the reason of each."""

REASONS = {}
