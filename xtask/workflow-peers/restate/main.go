// Runs the steps of Restate's instances, and their clients. The server is another process.
package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"plimsoll/workflow-peers/load"

	restate "github.com/restatedev/sdk-go"
	"github.com/restatedev/sdk-go/ingress"
	"github.com/restatedev/sdk-go/server"
)

var waits load.Waits

// Flow is the service that the server calls.
type Flow struct{}

func nothing(restate.RunContext) (string, error) { return "", nil }

// RoundTrip makes one step, waits for an awakeable, and makes another step.
func (Flow) RoundTrip(ctx restate.Context, id string) (string, error) {
	if _, err := restate.Run(ctx, nothing); err != nil {
		return "", err
	}
	awakeable := restate.Awakeable[string](ctx)
	waits.Tell(id, awakeable.Id())
	if _, err := awakeable.Result(); err != nil {
		return "", err
	}
	return restate.Run(ctx, nothing)
}

// Steps makes three steps in sequence.
func (Flow) Steps(ctx restate.Context, _ string) (string, error) {
	for range 3 {
		if _, err := restate.Run(ctx, nothing); err != nil {
			return "", err
		}
	}
	return "", nil
}

// Timer waits a second.
func (Flow) Timer(ctx restate.Context, _ string) (string, error) {
	return "", restate.Sleep(ctx, time.Second)
}

var handlers = map[string]string{"round-trip": "RoundTrip", "steps": "Steps", "timer": "Timer"}

type engine struct {
	ingress string
	client  *ingress.Client
	http    *http.Client
}

func (e *engine) once(unit, id string) (load.Sample, error) {
	ctx, cancel := context.WithTimeout(context.Background(), load.Patience)
	defer cancel()
	begin := time.Now()
	waiting := waits.Expect(id)
	defer waits.Forget(id)
	sent, err := ingress.Service[string, string](e.client, "Flow", handlers[unit]).Send(ctx, id, restate.WithIdempotencyKey(id))
	if err != nil {
		return load.Sample{}, err
	}
	signalled := begin
	if unit == "round-trip" {
		awakeable, err := load.Await(waiting, id)
		if err != nil {
			return load.Sample{}, err
		}
		signalled = time.Now()
		if err := e.resolve(ctx, awakeable); err != nil {
			return load.Sample{}, err
		}
	}
	_, err = sent.Attach(ctx)
	return load.Sample{Total: time.Since(begin), Signal: time.Since(signalled)}, err
}

func (e *engine) resolve(ctx context.Context, awakeable string) error {
	return e.post(ctx, e.ingress+"/restate/awakeables/"+awakeable+"/resolve", `""`)
}

func (e *engine) post(ctx context.Context, url, body string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewBufferString(body))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	answer, err := e.http.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	text, _ := io.ReadAll(answer.Body)
	if answer.StatusCode >= 300 {
		return fmt.Errorf("%s: %s: %s", url, answer.Status, text)
	}
	return nil
}

// The addresses of the server are "ingress,admin".
func prepare(options load.Options) (func(unit, id string) (load.Sample, error), error) {
	ingressURL, admin, found := strings.Cut(options.URI, ",")
	if !found {
		return nil, fmt.Errorf("-uri needs the addresses of ingress and admin, with a comma between them")
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	address := listener.Addr().String()
	if err := listener.Close(); err != nil {
		return nil, err
	}
	quiet := slog.NewTextHandler(io.Discard, nil)
	service := server.NewRestate().WithLogger(quiet, true).Bind(restate.Reflect(Flow{}))
	go func() {
		if err := service.Start(context.Background(), address); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}()
	transport := &http.Transport{MaxIdleConns: 1024, MaxIdleConnsPerHost: 1024}
	e := &engine{ingressURL, nil, &http.Client{Transport: transport}}
	e.client = ingress.NewClient(ingressURL, ingress.WithHttpClient(e.http))
	ctx, cancel := context.WithTimeout(context.Background(), load.Patience)
	defer cancel()
	if err := await(ctx, address); err != nil {
		return nil, err
	}
	register := fmt.Sprintf(`{"uri": "http://%s", "force": true}`, address)
	return e.once, e.post(ctx, admin+"/deployments", register)
}

// await waits until something listens at an address.
func await(ctx context.Context, address string) error {
	for {
		connection, err := net.DialTimeout("tcp", address, time.Second)
		if err == nil {
			return connection.Close()
		}
		if ctx.Err() != nil {
			return err
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func main() { load.Main(prepare) }
