// JSON, Buffers and compression in the main thread and in four workers; prints only what is the
// same on every run.
'use strict';
const { createHash } = require('node:crypto');
const zlib = require('node:zlib');
const { Worker, isMainThread, parentPort, workerData } = require('node:worker_threads');

function work(seed) {
    const hash = createHash('sha256');
    let state = seed;
    const next = (limit) => (state = (state * 48271) % 2147483647) % limit;
    for (let round = 0; round < 150; round++) {
        const record = { round, list: [], nested: {} };
        for (let i = 0; i < 60; i++) {
            record.list.push('x'.repeat(next(200)));
            record.nested['key' + next(1000)] = { value: next(1e6), flag: next(2) === 0 };
        }
        const text = JSON.stringify(JSON.parse(JSON.stringify(record)));
        const buffers = [Buffer.from(text), Buffer.alloc(next(200000), round)];
        const joined = Buffer.concat(buffers);
        const back = zlib.inflateSync(zlib.deflateSync(joined, { level: 1 }));
        if (!back.equals(joined)) throw new Error('inflate gave other bytes');
        hash.update(back);
    }
    return hash.digest('hex');
}

if (isMainThread) {
    const expected = work(7);
    console.log(expected);
    const worker = () =>
        new Promise((resolve, reject) => {
            const thread = new Worker(__filename, { workerData: 7 });
            thread.once('message', resolve);
            thread.once('error', reject);
        });
    Promise.all([worker(), worker(), worker(), worker()]).then((answers) => {
        if (answers.some((answer) => answer !== expected)) throw new Error('a worker differs');
        console.log(`${answers.length} workers agree`);
    });
} else {
    parentPort.postMessage(work(workerData));
}
