"""What the disk does by itself: writes 4 KiB and waits for it (fdatasync), again and again, while 10 MB/s are written beside
without waiting. disk.py SECONDS MB_A_SECOND PAUSE_S. Prints the second and the milliseconds of each sync over 50 ms."""
import os, sys, time

seconds, beside, pause = map(float, sys.argv[1:])
log = os.open("disk.dat", os.O_CREAT | os.O_WRONLY, 0o600)
data = os.open("beside.dat", os.O_CREAT | os.O_WRONLY, 0o600)
os.posix_fallocate(log, 0, 100 << 20)
began, took, place, wrote = time.monotonic(), [], 0, 0
while (start := time.monotonic()) - began < seconds:
    os.pwrite(log, b"x" * 4096, place)
    os.fdatasync(log)
    end = time.monotonic()
    took.append((end - start, start - began))
    place = (place + 4096) % (100 << 20)
    while wrote < beside * (end - began):
        os.pwrite(data, b"y" * (1 << 20), (wrote % 256) << 20)
        wrote += 1
    time.sleep(pause)
ms = sorted(1000 * it for it, _ in took)
at = lambda share: ms[min(int(len(ms) * share), len(ms) - 1)]
print(f"{len(ms)} syncs; ms p50 {at(.5):.2f} p99 {at(.99):.2f} p999 {at(.999):.2f} max {ms[-1]:.1f}")
print("over 50 ms:", [(round(when, 1), round(1000 * it)) for it, when in took if it > .05])
