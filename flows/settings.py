"""Every environment variable this package reads or sets, in one typed place."""

import os
import secrets
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import urlsplit

from pydantic import Field, SecretStr, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict

from cachemend.repair_core.errors import InputError, nearest

PREFIX = "CACHEMEND_"

# Set before Prefect, Ray and Hugging Face are imported; what the user has set stays.
DEFAULTS = {
    "DO_NOT_TRACK": "1",
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "150",
    "PREFECT_LOGGING_LEVEL": "WARNING",
    "RAY_USAGE_STATS_ENABLED": "0",
    # Without it Ray warns about its handling of CUDA_VISIBLE_DEVICES on every CPU worker.
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "HF_HUB_DISABLE_PROGRESS_BARS": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "TRANSFORMERS_VERBOSITY": "error",
    "TOKENIZERS_PARALLELISM": "false",
}


class Settings(BaseSettings):
    """The variables of this package; command-line options and config keys go before them.

    Attributes:
        results: CACHEMEND_RESULTS, folder of results.
        data: CACHEMEND_DATA, folder of official data files.
        workers: CACHEMEND_WORKERS, number of model copies; None to fit the machine.
        threads: CACHEMEND_THREADS, CPU threads of a worker; None to fit the machine.
        ray_address: CACHEMEND_RAY_ADDRESS, a running Ray cluster; None for one of our own.
        verifier_key: CACHEMEND_VERIFIER_KEY, sent to the verifier's endpoint as a bearer token; never shown or stored.
        git_commit, git_dirty: CACHEMEND_GIT_COMMIT and CACHEMEND_GIT_DIRTY, set by `cachemend submit`: the code
            of a job is no checkout.
    """

    model_config = SettingsConfigDict(env_prefix=PREFIX, env_ignore_empty=True, frozen=True, extra="forbid")

    results: Path = Path("results")
    data: Path = Path("data")
    workers: int | None = Field(default=None, ge=1)
    threads: int | None = Field(default=None, ge=1)
    ray_address: str | None = None
    verifier_key: SecretStr | None = None
    git_commit: str | None = None
    git_dirty: bool | None = None


def load_settings() -> Settings:
    """Read the CACHEMEND_ variables.

    Raises:
        InputError: an unknown CACHEMEND_ variable, or a value of the wrong type; the line names it.
    """
    known = [PREFIX + name.upper() for name in Settings.model_fields]
    for name in os.environ:
        if name.startswith(PREFIX) and name not in known:
            raise InputError(f"environment variable {name} is unknown; {nearest(name, known)}")
    try:
        return Settings()
    except ValidationError as error:
        first = error.errors()[0]
        name = PREFIX + str(first["loc"][0]).upper()
        given = "" if name == f"{PREFIX}VERIFIER_KEY" else f"={first['input']!r}"
        raise InputError(f"environment variable {name}{given}: {first['msg']}") from error


def prepare_environment(address: str | None = None) -> None:
    """Set what other packages read from the environment: offline, no telemetry, quiet, servers on loopback.

    Call it before Prefect, Ray or Hugging Face are imported. Values the user has set stay.

    Args:
        address: the Ray cluster to be used; None for one of our own on this machine.

    Raises:
        InputError: a cluster beyond this machine while Ray's token authentication is off.
    """
    for name, value in DEFAULTS.items():
        os.environ.setdefault(name, value)
    if address is None:
        # Every process of our own cluster then listens on 127.0.0.1; the name is Ray's, the effect is not
        # limited to the systems it speaks of.
        os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
        if os.environ.setdefault("RAY_AUTH_MODE", "token") == "token" and not _has_token():
            os.environ["RAY_AUTH_TOKEN"] = secrets.token_hex(32)
    elif is_loopback(address):
        os.environ.setdefault("RAY_AUTH_MODE", "token" if _has_token() else "disabled")
    elif os.environ.setdefault("RAY_AUTH_MODE", "token") == "disabled" or not _has_token():
        raise InputError(
            f"Ray address {address} is not on this machine: set RAY_AUTH_MODE=token and give the cluster's token "
            "in RAY_AUTH_TOKEN, RAY_AUTH_TOKEN_PATH or ~/.ray/auth_token"
        )


def is_loopback(address: str) -> bool:
    """Tell whether a Ray address stays on this machine; "auto" is the cluster this process runs in."""
    if address == "auto":
        return True
    host = urlsplit(address if "://" in address else f"//{address}").hostname or ""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _has_token() -> bool:
    named = os.environ.get("RAY_AUTH_TOKEN") or os.environ.get("RAY_AUTH_TOKEN_PATH")
    return bool(named) or (Path.home() / ".ray" / "auth_token").is_file()
