// Answers questions, one a line, fields between tabs: `read PSBT`, `sign PSBT SECRETS`, `finish PSBT`. PSBTs are
// base64, secrets hexadecimal between commas. An answer is a line too: `ok` or `no`, and what there is to say.

import { createInterface } from 'node:readline';

export function serve(methods) {
  createInterface({ input: process.stdin }).on('line', line => {
    const [method, text, secrets = ''] = line.split('\t');
    const keys = secrets.split(',').filter(Boolean).map(secret => Uint8Array.from(Buffer.from(secret, 'hex')));
    let answer;
    try {
      answer = ['ok', ...methods[method](text, keys)];
    } catch (error) {
      answer = ['no', String(error).replaceAll(/\s+/g, ' ')];
    }
    process.stdout.write(`${answer.join('\t')}\n`);
  });
}
