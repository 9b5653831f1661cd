// Runs the steps of Temporal's instances, and their clients. The server is another process.
package main

import (
	"context"
	"io"
	"log/slog"
	"time"

	"plimsoll/workflow-peers/load"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
)

const queue = "bench"

var waits load.Waits

func nothing(context.Context) error { return nil }

// step makes one step that does nothing.
func step(ctx workflow.Context) error {
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: load.Patience})
	return workflow.ExecuteActivity(ctx, nothing).Get(ctx, nil)
}

// roundTrip makes one step, waits for a signal, and makes another step.
func roundTrip(ctx workflow.Context, id string) error {
	if err := step(ctx); err != nil {
		return err
	}
	waits.Tell(id, "")
	workflow.GetSignalChannel(ctx, "go").Receive(ctx, nil)
	return step(ctx)
}

// steps makes three steps in sequence.
func steps(ctx workflow.Context, _ string) error {
	for range 3 {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// timer waits a second.
func timer(ctx workflow.Context, _ string) error { return workflow.Sleep(ctx, time.Second) }

var workflows = map[string]func(workflow.Context, string) error{
	"round-trip": roundTrip, "steps": steps, "timer": timer,
}

func once(engine client.Client, unit, id string) (load.Sample, error) {
	ctx, cancel := context.WithTimeout(context.Background(), load.Patience)
	defer cancel()
	begin := time.Now()
	waiting := waits.Expect(id)
	defer waits.Forget(id)
	run, err := engine.ExecuteWorkflow(ctx, client.StartWorkflowOptions{ID: id, TaskQueue: queue}, workflows[unit], id)
	if err != nil {
		return load.Sample{}, err
	}
	signalled := begin
	if unit == "round-trip" {
		if _, err := load.Await(waiting, id); err != nil {
			return load.Sample{}, err
		}
		signalled = time.Now()
		if err := engine.SignalWorkflow(ctx, id, "", "go", nil); err != nil {
			return load.Sample{}, err
		}
	}
	err = run.Get(ctx, nil)
	return load.Sample{Total: time.Since(begin), Signal: time.Since(signalled)}, err
}

func main() {
	load.Main(func(options load.Options) (func(unit, id string) (load.Sample, error), error) {
		quiet := log.NewStructuredLogger(slog.New(slog.NewTextHandler(io.Discard, nil)))
		engine, err := client.Dial(client.Options{HostPort: options.URI, Logger: quiet})
		if err != nil {
			return nil, err
		}
		steps := worker.New(engine, queue, worker.Options{})
		for _, one := range workflows {
			steps.RegisterWorkflow(one)
		}
		steps.RegisterActivity(nothing)
		return func(unit, id string) (load.Sample, error) { return once(engine, unit, id) }, steps.Start()
	})
}
