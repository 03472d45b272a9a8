//! Where private keys are computed with.

use std::sync::LazyLock;

use bitcoin::secp256k1::{All, Secp256k1};
use godwit_secret::{Releasable, SecretArray, Unprotected, run_on_secret_stack};

use crate::error::KeyError;

/// Runs `operation` on a secret stack; see [`run_on_secret_stack`].
pub(crate) fn guarded<R: Releasable + Send>(
    operation: impl FnOnce() -> Result<R, KeyError> + Send,
) -> Result<R, KeyError> {
    run_on_secret_stack(operation)?
}

/// The curve. It is blinded by a number of its own, which says nothing of any key: whoever measures the
/// processor's time or power learns less of those.
static CURVE: LazyLock<Secp256k1<All>> = LazyLock::new(|| {
    let mut curve = Secp256k1::new();
    // Results are the same without: a system that gives no random bytes refuses the next new key.
    if let Ok(seed) = SecretArray::<32>::random() {
        seed.expose_secret_into(Unprotected(&mut curve), |seed, curve| {
            curve.0.seeded_randomize(seed);
        });
    }
    curve
});

pub(crate) fn curve() -> &'static Secp256k1<All> {
    &CURVE
}
