// One application on node-postgres: requests at a steady rate, whatever became of those before.
// The contract of arguments and output is in ../README.md.
import { readFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import pg from 'pg';

const versionOf = (name) => JSON.parse(readFileSync(new URL(`node_modules/${name}/package.json`, import.meta.url))).version;
const text = (value) => ({ type: 'string', default: value });
const { values } = parseArgs({
  options: {
    host: text('127.0.0.1'), port: text('5432'), rate: text('1'), for: text('10'), deadline: text('5'),
    'idle-limit': text('7'), begin: text('0'), settings: text('default'),
  },
});
const [port, rate, lasts, deadline, idleLimit, beginMs] = ['port', 'rate', 'for', 'deadline', 'idle-limit', 'begin']
  .map((name) => Number(values[name]));
if (!(rate > 0) || !(deadline > 1) || !['default', 'advised'].includes(values.settings)) {
  console.error('a rate above 0, a deadline above 1 and settings default or advised are needed');
  process.exit(2);
}

const timeout = (deadline - 1) * 1000;
const applied = values.settings === 'default' ? {} : {
  idleTimeoutMillis: idleLimit * 500,
  connectionTimeoutMillis: timeout,
  query_timeout: timeout,
};
const pool = new pg.Pool({ host: values.host, port, user: 'app', database: 'postgres', ...applied });
// The pool tells here of idle connections that ended, and removes them; without a listener the process would end.
pool.on('error', () => {});

// A class of errors, never a text of the library.
const kind = (error) => {
  if (error === null) return null;
  if (error.code) return /^[0-9A-Z]{5}$/.test(error.code) ? `server:${error.code}` : error.code;
  return /timeout/i.test(error.message) ? 'timeout' : /terminated/i.test(error.message) ? 'closed' : 'other';
};

const count = { answered: 0, failed: 0, ambiguous: 0 };
const begin = performance.now() + (beginMs ? beginMs - (performance.timeOrigin + performance.now()) : 0);

// One request. Whoever comes first, its answer or the caller's deadline, ends it.
const ask = (n, dueMs) => new Promise((resolve) => {
  let sent = false;
  let over = false;
  const end = (answered, error) => {
    if (over) return;
    over = true;
    clearTimeout(timer);
    const name = answered ? 'answered' : sent ? 'ambiguous' : 'failed';
    count[name] += 1;
    const waited = Math.round((performance.now() - begin - dueMs) * 1e6);
    console.log(JSON.stringify({ n, due_ns: Math.round(dueMs * 1e6), end: name, waited_ns: waited, error }));
    resolve();
  };
  const timer = setTimeout(() => end(false, 'deadline'), begin + dueMs + deadline * 1000 - performance.now());
  // What pool.query() does, in two steps: only so can one tell whether the question was sent.
  pool.connect((failed, client, release) => {
    if (failed) {
      end(false, kind(failed));
      return;
    }
    const broken = (error) => { release(error); end(false, kind(error)); };
    client.once('error', broken);
    sent = true;
    client.query('SELECT 1', (error) => {
      client.removeListener('error', broken);
      if (!over || !error) end(!error, kind(error));
      try { release(error); } catch { /* the end of the connection was told first */ }
    });
  });
});

const all = [];
for (let n = 0; n / rate < lasts; n += 1) {
  const dueMs = (n / rate) * 1000;
  all.push(new Promise((resolve) => {
    setTimeout(() => resolve(ask(n, dueMs)), Math.max(0, begin + dueMs - performance.now()));
  }));
}
await Promise.all(all);
console.log(JSON.stringify({
  due: all.length, ...count, library: 'node-postgres', settings: values.settings, applied,
  version: `pg ${versionOf('pg')}, pg-pool ${versionOf('pg-pool')}, Node ${process.versions.node}`,
}));
// What still waits for a dead connection waits for as long as TCP does: nothing is owed to it.
process.exit(0);
