// The baseline as a k6 script, to measure the same service with another tool: k6 run -e BASE=http://127.0.0.1:8080 baseline.js
// k6 counts latencies from when a request was sent, not from when it was due.
import http from 'k6/http';
import { check } from 'k6';
import { Trend } from 'k6/metrics';

const base = __ENV.BASE || 'http://127.0.0.1:8080';
const duration = __ENV.DURATION || '5m';
const ingest = new Trend('ingest_time', true);
const query = new Trend('query_time', true);

const open = (exec, rate, vus, most) => ({
  executor: 'constant-arrival-rate', exec, rate, timeUnit: '1s', duration, preAllocatedVUs: vus, maxVUs: most,
});

export const options = {
  scenarios: {
    readings: open('send', 1000, 200, 500),
    feeds: open('feed', 200, 50, 100),
    statistics: open('statistics', 20, 10, 30),
  },
  thresholds: {
    ingest_time: ['p(95)<500', 'p(99)<2000'],
    query_time: ['p(95)<200', 'p(99)<1000'],
    http_req_failed: ['rate<0.01'],
  },
};

const below = (limit) => Math.floor(Math.random() * limit);
const between = (least, most) => least + Math.random() * (most - least);

export function send() {
  const reading = {
    sensorId: `sensor-${below(10000)}`,
    timestamp: new Date().toISOString(),
    temperature: between(20, 35),
    humidity: between(40, 70),
    pressure: between(1010, 1030),
    batteryLevel: between(0, 100),
  };
  const headers = { 'Content-Type': 'application/json' };
  const answer = http.post(`${base}/api/telemetry/ingest`, JSON.stringify(reading), { headers });
  ingest.add(answer.timings.duration);
  check(answer, { 'reading stored': (it) => it.status === 201 });
}

function ask(path) {
  const answer = http.get(base + path);
  query.add(answer.timings.duration);
  check(answer, { 'answer given': (it) => it.status === 200 });
}

export function feed() {
  ask(`/api/activity/user-${below(5000)}?limit=50`);
}

export function statistics() {
  ask(`/api/telemetry/stats/sensor-${below(10000)}?window=1h`);
}
