# SPDX-License-Identifier: Apache-2.0
"""What `import torch` calls in a Python environment with tryst_torch (the entry point torch.backends, PyTorch 2.5): with
TORCH_TRYST_REPLACE_GLOO=1 a program that does not import tryst_torch runs over tryst, too. This module is outside the
package, so that `import torch` does not load libtryst where the setting is absent."""

import os


def load() -> None:
    if os.environ.get("TORCH_TRYST_REPLACE_GLOO", "0") not in ("", "0"):
        import tryst_torch  # noqa: F401 (replaces gloo)
