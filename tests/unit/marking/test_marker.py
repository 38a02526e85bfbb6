"""What is written into files: tags where a format has them, and a signed manifest where there is a certificate."""

from __future__ import annotations

import io
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import av
import numpy as np
import pytest

from rhapsode.audio.clip import Audio
from rhapsode.audio.decode import decode
from rhapsode.audio.encode import Encoder, encode
from rhapsode.audio.formats import FORMATS
from rhapsode.config import resolve
from rhapsode.config.marking import MarkingConfig
from rhapsode.errors import ConfigError
from rhapsode.marking.marker import Marker
from rhapsode.types import Clip

CLIP = Clip((0.1 * np.sin(np.arange(24_000) * 0.05)).astype(np.float32)[None], 24_000)
TAGGED = ["mp3", "opus", "aac", "flac", "wav"]


def tags(data: bytes) -> dict[str, str]:
    with av.open(io.BytesIO(data)) as container:
        found = {**container.metadata, **container.streams.audio[0].metadata}
    return {name.lower(): text for name, text in found.items()}


def streamed(fmt: str, marks: Marker | None) -> bytes:
    encoder = Encoder(fmt, 24_000, marks=marks)
    return encoder.write(CLIP.samples) + encoder.close()


@pytest.mark.parametrize("fmt", TAGGED)
def test_a_file_says_that_it_is_synthetic_and_who_made_it(fmt):
    marks = Marker(MarkingConfig(metadata=True, deployment="Radio Ä"))
    data = encode(CLIP, fmt, marks)
    assert tags(data)["comment"] == "AI-generated speech, made with Rhapsode by Radio Ä"
    if fmt != "wav":  # it has no such tag
        assert tags(data)["digital_source_type"].endswith("trainedAlgorithmicMedia")
    assert np.array_equal(decode(data).samples, decode(encode(CLIP, fmt)).samples)


@pytest.mark.parametrize("fmt", [name for name in TAGGED if name != "wav"])
def test_a_stream_says_it_too(fmt):
    assert "AI-generated" in tags(streamed(fmt, Marker(MarkingConfig(metadata=True))))["comment"]


def test_the_header_of_a_wav_file_keeps_its_length():
    marks = Marker(MarkingConfig(metadata=True))
    for made, plain in ((streamed("wav", marks), streamed("wav", None)), (encode(CLIP, "wav", marks), b"")):
        assert made[36:40] == b"data"
        assert made == plain or plain == b""


@pytest.mark.parametrize("fmt", FORMATS)
def test_nothing_is_marked_unless_it_is_asked_for(fmt):
    marks = Marker(resolve(env={}).marking)
    assert marks.watermarks(24_000, 1) == ()
    data = encode(CLIP, fmt, marks)
    assert len(data) == len(encode(CLIP, fmt))
    assert b"AI-generated" not in data


def test_a_saved_file_is_marked(tmp_path):
    marks = Marker(MarkingConfig(metadata=True))
    file = Audio(CLIP.samples, 24_000, marks).save(tmp_path / "speech.flac")
    assert "AI-generated" in tags(file.read_bytes())["comment"]


# --- C2PA ---


@pytest.fixture(scope="module")
def signature(tmp_path_factory) -> dict[str, Path]:
    """A certificate of an authority of our own, and its key."""
    pytest.importorskip("c2pa")
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

    def name(common: str) -> x509.Name:
        pairs = ((NameOID.COMMON_NAME, common), (NameOID.ORGANIZATION_NAME, "Rhapsode tests"))
        return x509.Name([x509.NameAttribute(oid, text) for oid, text in pairs])

    def certificate(subject: str, public: ec.EllipticCurvePublicKey, is_ca: bool) -> x509.Certificate:
        uses = dict.fromkeys(
            ("content_commitment", "key_encipherment", "data_encipherment", "key_agreement"), False
        ) | dict.fromkeys(("encipher_only", "decipher_only"), False)
        builder = (
            x509.CertificateBuilder()
            .subject_name(name(subject))
            .issuer_name(name("authority"))
            .public_key(public)
            .serial_number(x509.random_serial_number())
            .not_valid_before(datetime.now(UTC) - timedelta(days=1))
            .not_valid_after(datetime.now(UTC) + timedelta(days=1))
            .add_extension(x509.BasicConstraints(ca=is_ca, path_length=None), critical=True)
            .add_extension(
                x509.KeyUsage(digital_signature=not is_ca, key_cert_sign=is_ca, crl_sign=is_ca, **uses), critical=True
            )
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.public_key()), critical=False)
        )
        if not is_ca:
            purpose = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.EMAIL_PROTECTION])
            builder = builder.add_extension(purpose, critical=False)
        return builder.sign(authority, hashes.SHA256())

    authority, key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    chain = (certificate("signer", key.public_key(), False), certificate("authority", authority.public_key(), True))
    folder = tmp_path_factory.mktemp("signature")
    pem = serialization.Encoding.PEM
    (folder / "chain.pem").write_bytes(b"".join(one.public_bytes(pem) for one in chain))
    (folder / "key.pem").write_bytes(
        key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return {"certificate": folder / "chain.pem", "private_key": folder / "key.pem"}


@pytest.mark.parametrize(("fmt", "media_type"), [("wav", "audio/wav"), ("mp3", "audio/mpeg"), ("flac", "audio/flac")])
def test_a_whole_file_is_signed(signature, fmt, media_type):
    import c2pa

    data = encode(CLIP, fmt, Marker(MarkingConfig(metadata=True, deployment="radio", **signature)))
    report = json.loads(c2pa.Reader(media_type, io.BytesIO(data)).json())
    manifest = report["manifests"][report["active_manifest"]]
    (action,) = manifest["assertions"][0]["data"]["actions"]
    assert report["validation_state"] == "Valid"
    assert manifest["signature_info"]["common_name"] == "signer"
    assert action["action"] == "c2pa.created"
    assert action["digitalSourceType"].endswith("trainedAlgorithmicMedia")
    assert np.array_equal(decode(data).samples, decode(encode(CLIP, fmt)).samples)


def test_a_changed_sample_breaks_the_signature(signature):
    import c2pa

    data = bytearray(encode(CLIP, "wav", Marker(MarkingConfig(metadata=True, **signature))))
    data[1000] ^= 1
    report = json.loads(c2pa.Reader("audio/wav", io.BytesIO(bytes(data))).json())
    assert report["validation_state"] == "Invalid"


@pytest.mark.parametrize("fmt", ["opus", "aac", "pcm"])
def test_formats_that_cannot_hold_a_manifest_are_left_alone(signature, fmt):
    data = encode(CLIP, fmt, Marker(MarkingConfig(metadata=True, **signature)))
    assert b"c2pa" not in data
    assert len(data) > 1000


def test_a_key_that_cannot_sign_is_refused_at_start(signature, tmp_path):
    (tmp_path / "key.pem").write_text("no key")
    with pytest.raises(ConfigError, match=r"key\.pem is not a private key"):
        Marker(MarkingConfig(metadata=True, certificate=signature["certificate"], private_key=tmp_path / "key.pem"))
    with pytest.raises(ConfigError, match="cannot read"):
        Marker(MarkingConfig(metadata=True, certificate=tmp_path / "none.pem", private_key=tmp_path / "key.pem"))


def test_a_certificate_without_its_key_is_refused():
    with pytest.raises(ConfigError, match="both a certificate and its private key"):
        resolve(env={}, flags={"marking": {"certificate": "chain.pem"}})
