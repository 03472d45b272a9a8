// bitcoinjs-lib behind the questions of serve.js.

import { Psbt, Transaction, crypto, initEccLib } from 'bitcoinjs-lib';
import * as ecc from 'tiny-secp256k1';
import { serve } from './serve.js';

initEccLib(ecc);

const hex = bytes => Buffer.from(bytes).toString('hex');

function signer(secret) {
  return {
    publicKey: ecc.pointFromScalar(secret, true),
    sign: hash => ecc.sign(hash, secret),
    signSchnorr: hash => ecc.signSchnorr(hash, secret),
  };
}

// The key of an output that is spent without a script, whose even form is tweaked.
function tweaked(secret, root) {
  const key = ecc.pointFromScalar(secret, true);
  const even = key[0] === 2 ? secret : ecc.privateNegate(secret);
  const tweak = crypto.taggedHash('TapTweak', Buffer.concat([key.slice(1), root ?? Buffer.alloc(0)]));
  return signer(ecc.privateAdd(even, tweak));
}

function isOf(input, secret) {
  const key = ecc.pointFromScalar(secret, true);
  const sources = [
    ...(input.bip32Derivation ?? []).map(source => hex(source.pubkey) === hex(key)),
    ...(input.tapBip32Derivation ?? []).map(source => hex(source.pubkey) === hex(key.slice(1))),
  ];
  return sources.includes(true);
}

function signInput(psbt, index, secret) {
  const input = psbt.data.inputs[index];
  const types = [input.sighashType ?? (input.tapInternalKey ? Transaction.SIGHASH_DEFAULT : Transaction.SIGHASH_ALL)];
  const key = ecc.pointFromScalar(secret, true);
  if (!input.tapInternalKey) {
    psbt.signInput(index, signer(secret), types);
  } else if (hex(input.tapInternalKey) === hex(key.slice(1))) {
    psbt.signInput(index, tweaked(secret, input.tapMerkleRoot), types);
  } else {
    psbt.signInput(index, signer(secret), types);
  }
}

serve({
  read: text => {
    const psbt = Psbt.fromBase64(text);
    return [hex(psbt.data.getTransaction()), psbt.toBase64()];
  },
  sign: (text, secrets) => {
    const psbt = Psbt.fromBase64(text);
    psbt.data.inputs.forEach((input, index) => {
      secrets.filter(secret => isOf(input, secret)).forEach(secret => signInput(psbt, index, secret));
    });
    return [psbt.toBase64()];
  },
  finish: text => {
    const psbt = Psbt.fromBase64(text);
    psbt.finalizeAllInputs();
    return [psbt.extractTransaction(true).toHex()];
  },
});
