# SPDX-License-Identifier: Apache-2.0
"""What can be asked without a group: settings, the launcher, this machine's checks, keys."""

from typing import Any, Mapping, Optional

from tryst._abi import as_dict, ffi, lib, sized, text, visit
from tryst.errors import check, error_of, filled, opened

_LEVELS = ("ok", "warn", "fail")


class Config:
    """A set of settings: the environment's, and `values` by name."""

    def __init__(self, values: Optional[Mapping[str, Any]] = None) -> None:
        self.handle = ffi.gc(opened("tryst_config", lib.tryst_config_open), lib.tryst_config_close)
        for name, value in (values or {}).items():
            check(lib.tryst_config_set(self.handle, name.encode(), str(value).encode()))

    def __enter__(self) -> "Config":
        return self

    def __exit__(self, *_error: Any) -> None:
        ffi.release(self.handle)


def settings(config: Optional[Mapping[str, Any]] = None) -> list[dict[str, str]]:
    """Every setting: its name, value, origin, default, what is allowed, and help."""
    with Config(config) as values:
        return visit(lib.tryst_config_visit, (values.handle,), "const tryst_config_item *", as_dict)


def setting(name: str, config: Optional[Mapping[str, Any]] = None) -> dict[str, str]:
    """One setting, by either form of its name ("window_bytes", "TRYST_WINDOW_BYTES")."""
    with Config(config) as values:
        return filled("tryst_config_item", lib.tryst_config_get, values.handle, name.encode())


def launch(config: Optional[Mapping[str, Any]] = None) -> dict[str, Any]:
    """The launcher of this process: rank, size, and why it was chosen."""
    with Config(config) as values:
        return filled("tryst_launch", lib.tryst_launch_find, values.handle)


def checks(config: Optional[Mapping[str, Any]] = None) -> list[dict[str, str]]:
    """Check this machine before a job starts: name, level ("ok", "warn", "fail"), text and fix of each check."""
    with Config(config) as values:
        rows = visit(lib.tryst_check_visit, (values.handle,), "const tryst_check_item *", as_dict)
    return [{**row, "level": _LEVELS[row["level"]]} for row in rows]


def key_parse(key: str) -> dict[str, Any]:
    """The parts of a key. Raises Error with place and reason."""
    chars = ffi.new("char[]", key.encode())
    parsed, error = sized("tryst_parsed_key"), sized("tryst_key_error")
    status = lib.tryst_key_parse(chars, parsed, error)
    if status == lib.TRYST_E_KEY:
        raise error_of(status, f"not a valid key: {key!r}: {text(error.reason)} at byte {error.position}")
    check(status)
    views = ("src_device", "dst_device", "edge", "frame_iter")
    parts = {name: ffi.buffer(view.data, view.bytes)[:].decode() for name, view in
             ((name, getattr(parsed, name)) for name in views)}
    return {**parts, "src_incarnation": parsed.src_incarnation}


def version() -> str:
    """The version of the loaded library."""
    return text(lib.tryst_version_string())
