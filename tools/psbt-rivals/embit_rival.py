"""embit behind the questions of serve.js."""

import sys

from embit import ec
from embit.finalizer import finalize_psbt
from embit.psbt import PSBT


def answer(method, text, secrets=""):
    psbt = PSBT.from_string(text)
    if method == "read":
        return [psbt.tx.serialize().hex(), psbt.to_string()]
    if method == "sign":
        for secret in filter(None, secrets.split(",")):
            psbt.sign_with(ec.PrivateKey(bytes.fromhex(secret)), sighash=None)
        return [psbt.to_string()]
    if method == "finish":
        transaction = finalize_psbt(psbt)
        if transaction is None:
            raise ValueError("it is not complete")
        return [transaction.serialize().hex()]
    raise ValueError(method)


for line in sys.stdin:
    try:
        fields = ["ok", *answer(*line.rstrip("\n").split("\t"))]
    except Exception as error:
        fields = ["no", " ".join(f"{type(error).__name__}: {error}".split())]
    print("\t".join(fields), flush=True)
