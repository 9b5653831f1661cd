// Package load runs a closed loop of clients against a workflow engine, and prints one line of JSON.
package load

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"
)

// Patience is the limit of every wait.
const Patience = 60 * time.Second

// Options of a run.
type Options struct {
	URI     string
	Unit    string
	Clients int
	Seconds float64
}

// Sample is one completed instance: the time since its start, and since its signal.
type Sample struct {
	Total  time.Duration
	Signal time.Duration
}

// Waits holds a channel for each instance: it gets a value when the instance begins to wait.
type Waits struct{ channels sync.Map }

// Expect returns the channel of an instance that is about to start.
func (w *Waits) Expect(id string) chan string {
	channel := make(chan string, 1)
	w.channels.Store(id, channel)
	return channel
}

// Tell says that an instance waits. A replay of the instance says it again.
func (w *Waits) Tell(id, value string) {
	if channel, ok := w.channels.Load(id); ok {
		select {
		case channel.(chan string) <- value:
		default:
		}
	}
}

// Forget ends the expectation.
func (w *Waits) Forget(id string) { w.channels.Delete(id) }

// Await waits until the instance waits.
func Await(channel chan string, id string) (string, error) {
	select {
	case value := <-channel:
		return value, nil
	case <-time.After(Patience):
		return "", fmt.Errorf("%s does not wait", id)
	}
}

// Main reads the options, prepares the engine, and runs the clients.
func Main(prepare func(Options) (func(unit, id string) (Sample, error), error)) {
	var options Options
	flag.StringVar(&options.URI, "uri", "", "the server")
	flag.StringVar(&options.Unit, "unit", "round-trip", "round-trip, steps or timer")
	flag.IntVar(&options.Clients, "clients", 1, "clients")
	flag.Float64Var(&options.Seconds, "seconds", 8, "seconds")
	flag.Parse()
	if err := run(options, prepare); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(options Options, prepare func(Options) (func(unit, id string) (Sample, error), error)) error {
	once, err := prepare(options)
	if err != nil {
		return err
	}
	prefix := fmt.Sprintf("%d-%d", os.Getpid(), time.Now().UnixNano())
	if _, err := once("steps", prefix+"-warm"); err != nil {
		return err
	}
	var mutex sync.Mutex
	var group sync.WaitGroup
	var samples []Sample
	var failed error
	begin, before := time.Now(), cpu()
	for client := range options.Clients {
		group.Go(func() {
			for n := 0; time.Since(begin).Seconds() < options.Seconds; n++ {
				one, err := once(options.Unit, fmt.Sprintf("%s-%d-%d", prefix, client, n))
				mutex.Lock()
				if err != nil {
					failed = err
				} else {
					samples = append(samples, one)
				}
				mutex.Unlock()
			}
		})
	}
	group.Wait()
	took, used := time.Since(begin).Seconds(), cpu()-before
	if failed != nil {
		return failed
	}
	return report(samples, took, used)
}

func report(samples []Sample, took, used float64) error {
	var totals, signals []time.Duration
	for _, one := range samples {
		totals, signals = append(totals, one.Total), append(signals, one.Signal)
	}
	slices.Sort(totals)
	slices.Sort(signals)
	return json.NewEncoder(os.Stdout).Encode(map[string]any{
		"completed": len(samples), "seconds": took, "cpu_s": used,
		"total_p50_ms": percentile(totals, 0.5), "total_p99_ms": percentile(totals, 0.99),
		"signal_p50_ms": percentile(signals, 0.5), "signal_p99_ms": percentile(signals, 0.99),
	})
}

// percentile gives the value in milliseconds.
func percentile(sorted []time.Duration, share float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	return float64(sorted[int(share*float64(len(sorted)-1))]) / 1e6
}

// cpu gives the seconds that this process has used.
func cpu() float64 {
	var use syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &use); err != nil {
		panic(err)
	}
	return float64(use.Utime.Nano()+use.Stime.Nano()) / 1e9
}
