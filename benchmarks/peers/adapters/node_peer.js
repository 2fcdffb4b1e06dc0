// graphile-worker and BullMQ: `node node_peer.js PEER setup | one N | bulk N | paced RATE N | held N | work`, as shared.py has it.
"use strict";
const fs = require("fs");
const { createRequire } = require("module");
const load = createRequire(process.cwd() + "/");

const url = process.env.PEER_URL;
const slots = Number(process.env.PEER_SLOTS);
const LIST = 1000;
const WARM_UP = 50;
const file = fs.openSync(process.env.PEER_SEEN, "a");
const now = () => process.hrtime.bigint(); // the machine's monotonic clock, as Python's
const HELD = "-1"; // the `at` of a job that is running when its worker is killed
const stays = "PEER_HOLDS" in process.env;
const pause = (ms) => new Promise((done) => setTimeout(done, ms));

let first = true;
function seen(at) {
  if (at === HELD) fs.writeSync(file, "held\n");
  else if (at !== "0") fs.writeSync(file, `${now() - BigInt(at)}\n`);
  else if (first) {
    first = false;
    fs.writeSync(file, `first ${now()}\n`);
  }
}

const stay = (at) => (stays && at === HELD ? pause(3600000) : undefined);

function graphile(batched) {
  const { Logger, makeWorkerUtils, run } = load("graphile-worker");
  const logger = new Logger(() => () => {});
  let utils;
  return {
    async setup() {
      await this.open();
      await utils.migrate();
      await utils.release();
    },
    async open() {
      utils = await makeWorkerUtils({ connectionString: url, logger });
    },
    close: () => utils.release(),
    send: (n, at) => utils.addJob("probe", { n, at }),
    bulk: (numbers) => utils.addJobs(numbers.map((n) => ({ identifier: "probe", payload: { n, at: "0" } }))),
    async work() {
      const batches = { localQueue: { size: 500 }, completeJobBatchDelay: 0, failJobBatchDelay: 0 };
      const worker = { connectionString: url, concurrentJobs: slots, maxPoolSize: 20, logger, ...(batched ? batches : {}) };
      await run({ taskList: { probe: async (job) => (seen(job.at), stay(job.at)) }, noHandleSignals: true, preset: { worker } });
    },
  };
}

function bullmq() {
  const { Queue, Worker } = load("bullmq");
  const place = new URL(url);
  const connection = { host: place.hostname, port: Number(place.port), maxRetriesPerRequest: null };
  let queue;
  return {
    async setup() {},
    async open() {
      queue = new Queue("probes", { connection });
      await queue.waitUntilReady();
    },
    close: () => queue.close(),
    send: (n, at) => queue.add("probe", { n, at }),
    bulk: (numbers) => queue.addBulk(numbers.map((n) => ({ name: "probe", data: { n, at: "0" } }))),
    async work() {
      new Worker("probes", async (job) => {
        seen(job.data.at);
        await stay(job.data.at);
        return job.data.n;
      }, { connection, concurrency: slots });
    },
  };
}

const peers = { "graphile-worker": () => graphile(false), "graphile-worker-batched": () => graphile(true), bullmq };

async function timed(work) {
  const begun = process.hrtime.bigint();
  const cpu = process.cpuUsage();
  await work();
  const used = process.cpuUsage(cpu);
  return { seconds: Number(now() - begun) / 1e9, cpu: (used.user + used.system) / 1e6 };
}

async function main([name, command, ...values]) {
  const peer = peers[name]();
  if (command === "setup") return peer.setup();
  if (command === "work") {
    await peer.work();
    return new Promise(() => {});
  }
  await peer.open();
  let told;
  if (command === "one") {
    for (let n = 0; n < WARM_UP; n++) await peer.send(n, "0");
    told = await timed(async () => {
      for (let n = 0; n < Number(values[0]); n++) await peer.send(n, "0");
    });
  } else if (command === "held") {
    for (let n = 0; n < Number(values[0]); n++) await peer.send(n, HELD);
    told = {};
  } else if (command === "bulk") {
    const count = Number(values[0]);
    told = await timed(async () => {
      for (let n = 0; n < count; n += LIST)
        await peer.bulk(Array.from({ length: Math.min(LIST, count - n) }, (_, at) => n + at));
    });
  } else {
    const [rate, count] = values.map(Number);
    told = await timed(async () => {
      const begun = now();
      const sending = [];
      for (let n = 0; n < count; n++) {
        const due = (n / rate) * 1000 - Number(now() - begun) / 1e6;
        if (due > 0) await pause(due);
        sending.push(peer.send(n, String(now())));
      }
      await Promise.all(sending);
    });
  }
  await peer.close();
  console.log(JSON.stringify(told));
}

main(process.argv.slice(2)).then(() => process.exit(0), (error) => {
  console.error(error);
  process.exit(1);
});
