// Objects of the engine's own heap, and buffers, text and compression outside of it.
const crypto = require('crypto');
const fs = require('fs');
const zlib = require('zlib');

const lines = fs.readFileSync(process.argv[2], 'latin1').trimEnd().split('\n');
const counts = new Map();
for (const line of lines) for (const word of line.split(' ')) counts.set(word, (counts.get(word) || 0) + 1);
const digest = crypto.createHash('sha256');
digest.update(JSON.stringify([...counts].sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1))));
const kept = [];
for (let n = 0; n < 60000; n++) {
  const buffer = Buffer.allocUnsafeSlow(64 + ((n * 7919) % 4000));
  buffer.fill(n & 255);
  kept[n % 5000] = buffer;
}
for (const buffer of kept) digest.update(buffer);
for (let n = 0; n < 400; n++) {
  const packed = zlib.deflateSync(lines.slice(n * 40, n * 40 + 40).join('\n'), { level: 1 });
  digest.update(zlib.inflateSync(packed));
}
console.log(counts.size, digest.digest('hex'));
