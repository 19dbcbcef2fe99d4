"""Certificates for tests, made by openssl: an authority, and what it and strangers sign."""

import subprocess
from pathlib import Path

CURVE = ("ec", "-pkeyopt", "ec_paramgen_curve:prime256v1")


class Authority:
    """A certificate authority whose files stand in a folder."""

    def __init__(self, folder: Path, name: str = "authority") -> None:
        self.folder = folder
        self.certificate = folder / f"{name}.pem"
        self.key = folder / f"{name}-key.pem"
        new_key = ("-newkey", *CURVE, "-nodes", "-keyout", self.key)
        openssl("req", "-x509", *new_key, "-subj", f"/CN={name}", "-days", "30", "-out", self.certificate)

    def issue(
        self,
        name: str,
        subject: str,
        *,
        password: str = "",
        expired: bool = False,
        names: str = "DNS:localhost,IP:127.0.0.1",
    ) -> "Certificate":
        """A certificate for these names with this subject (`/C=…/CN=…`)."""
        made = Certificate(self.folder / f"{name}.pem", self.folder / f"{name}-key.pem")
        request = self.folder / f"{name}.csr"
        extensions = self.folder / "extensions"
        extensions.write_text(f"subjectAltName={names}\n")
        protection = ["-passout", f"pass:{password}"] if password else ["-nodes"]
        new_key = ("-newkey", *CURVE, *protection, "-keyout", made.key)
        openssl("req", "-new", *new_key, "-subj", subject, "-out", request)
        signer = ("-CA", self.certificate, "-CAkey", self.key, "-CAcreateserial")
        days = "-1" if expired else "90"
        openssl("x509", "-req", "-in", request, *signer, "-extfile", extensions, "-days", days,
                "-out", made.certificate)  # fmt: skip
        return made


class Certificate:
    """The files of a certificate and its key."""

    def __init__(self, certificate: Path, key: Path) -> None:
        self.certificate = certificate
        self.key = key


def openssl(*arguments: str | Path) -> None:
    subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True)  # noqa: S607 - whichever there is
