// @scure/btc-signer behind the questions of serve.js.

import { Transaction } from '@scure/btc-signer';
import { pubECDSA, pubSchnorr } from '@scure/btc-signer/utils.js';
import { serve } from './serve.js';

const options = { allowUnknownInputs: true, allowUnknownOutputs: true, lowR: true, unknown: 'ignore' };
const read = text => Transaction.fromPSBT(Uint8Array.from(Buffer.from(text, 'base64')), options);
const base64 = transaction => Buffer.from(transaction.toPSBT()).toString('base64');
const hex = bytes => Buffer.from(bytes).toString('hex');

function isOf(input, secret) {
  const sources = [...(input.bip32Derivation ?? []), ...(input.tapBip32Derivation ?? [])].map(([key]) => hex(key));
  return sources.includes(hex(pubECDSA(secret))) || sources.includes(hex(pubSchnorr(secret)));
}

serve({
  read: text => {
    const transaction = read(text);
    return [hex(transaction.unsignedTx), base64(transaction)];
  },
  sign: (text, secrets) => {
    const transaction = read(text);
    for (let index = 0; index < transaction.inputsLength; index++) {
      const type = transaction.getInput(index).sighashType;
      for (const secret of secrets.filter(secret => isOf(transaction.getInput(index), secret))) {
        transaction.signIdx(secret, index, type === undefined ? undefined : [type]);
      }
    }
    return [base64(transaction)];
  },
  finish: text => {
    const transaction = read(text);
    transaction.finalize();
    return [hex(transaction.extract())];
  },
});
