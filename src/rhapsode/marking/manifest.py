"""Signs whole files with a C2PA manifest that says that they are synthetic. Needs the package `c2pa-python`."""

from __future__ import annotations

import io
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rhapsode.errors import ConfigError, MissingDependency, OutputError
from rhapsode.extras import how_to_install

if TYPE_CHECKING:
    from rhapsode.audio.formats import Format

SYNTHETIC = "http://cv.iptc.org/newscodes/digitalsourcetype/trainedAlgorithmicMedia"
"""IPTC's term for media made by a trained model."""
MEDIA_TYPES = {"wav": "audio/wav", "mp3": "audio/mpeg", "flac": "audio/flac"}
"""The formats that can hold a manifest."""


class ManifestSigner:
    """Adds signed manifests to files."""

    def __init__(self, certificate: Path, private_key: Path, deployment: str) -> None:
        try:
            import c2pa
        except ModuleNotFoundError:
            raise MissingDependency(f"C2PA manifests need c2pa-python: {how_to_install('c2pa')}") from None
        self._c2pa = c2pa
        self._deployment = deployment
        chain, key = _content(certificate), _content(private_key)
        self._info = c2pa.C2paSignerInfo(_algorithm(key, private_key), chain, key, None)
        try:
            c2pa.Signer.from_info(self._info).close()
        except c2pa.C2paError as error:
            raise ConfigError(f"{certificate} and {private_key} cannot sign C2PA manifests: {error}.") from None

    def sign(self, data: bytes, fmt: Format) -> bytes:
        """Returns the file with a manifest; one that cannot hold it is returned as it is."""
        if fmt.name not in MEDIA_TYPES:
            return data
        signed = io.BytesIO()
        try:
            with self._c2pa.Signer.from_info(self._info) as signer, self._c2pa.Builder(self._manifest()) as builder:
                builder.sign(signer, MEDIA_TYPES[fmt.name], io.BytesIO(data), signed)
        except self._c2pa.C2paError as error:
            raise OutputError(f"The file cannot be signed: {error}.") from None
        return signed.getvalue()

    def _manifest(self) -> dict[str, Any]:
        created = {
            "action": "c2pa.created",
            "when": datetime.now(UTC).isoformat(timespec="seconds"),
            "digitalSourceType": SYNTHETIC,
        }
        return {
            "title": self._deployment,
            "claim_generator_info": [{"name": "Rhapsode", "version": version("rhapsode")}],
            "assertions": [{"label": "c2pa.actions.v2", "data": {"actions": [created]}}],
        }


def _content(file: Path) -> bytes:
    try:
        return file.expanduser().read_bytes()
    except OSError as error:
        raise ConfigError(f"cannot read {file}: {error.strerror}.") from None


def _algorithm(key: bytes, file: Path) -> bytes:
    """Returns C2PA's name of the algorithm that this private key is for."""
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        loaded = load_pem_private_key(key, None)
    except (ValueError, TypeError):
        raise ConfigError(f"{file} is not a private key in PEM without a password.") from None
    if isinstance(loaded, EllipticCurvePrivateKey):
        return {256: b"es256", 384: b"es384"}.get(loaded.curve.key_size, b"es512")
    if isinstance(loaded, Ed25519PrivateKey):
        return b"ed25519"
    if isinstance(loaded, RSAPrivateKey):
        return b"ps256"
    raise ConfigError(f"{file} is no key for C2PA: use ECDSA, Ed25519 or RSA.")
