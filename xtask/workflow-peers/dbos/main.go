// Runs DBOS Transact on PostgreSQL as a library in the clients' process.
package main

import (
	"context"
	"io"
	"log/slog"
	"time"

	"plimsoll/workflow-peers/load"

	"github.com/dbos-inc/dbos-transact-golang/dbos"
)

var waits load.Waits

func nothing(context.Context) (string, error) { return "", nil }

// One step, a signal, another step.
func roundTrip(ctx dbos.Context, id string) (string, error) {
	if _, err := dbos.RunAsStep(ctx, nothing); err != nil {
		return "", err
	}
	waits.Tell(id, "")
	if _, err := dbos.Recv[string](ctx, "go", load.Patience); err != nil {
		return "", err
	}
	return dbos.RunAsStep(ctx, nothing)
}

// Three steps in sequence.
func steps(ctx dbos.Context, _ string) (string, error) {
	for range 3 {
		if _, err := dbos.RunAsStep(ctx, nothing); err != nil {
			return "", err
		}
	}
	return "", nil
}

// A timer of one second.
func timer(ctx dbos.Context, _ string) (string, error) {
	_, err := dbos.Sleep(ctx, time.Second)
	return "", err
}

func once(ctx dbos.Context, unit, id string) (load.Sample, error) {
	begin := time.Now()
	workflow := map[string]func(dbos.Context, string) (string, error){
		"round-trip": roundTrip, "steps": steps, "timer": timer,
	}[unit]
	waiting := waits.Expect(id)
	defer waits.Forget(id)
	handle, err := dbos.RunWorkflow(ctx, workflow, id, dbos.WithWorkflowID(id))
	if err != nil {
		return load.Sample{}, err
	}
	signalled := begin
	if unit == "round-trip" {
		if _, err := load.Await(waiting, id); err != nil {
			return load.Sample{}, err
		}
		signalled = time.Now()
		if err := dbos.Send(ctx, id, "", "go"); err != nil {
			return load.Sample{}, err
		}
	}
	_, err = handle.GetResult()
	return load.Sample{Total: time.Since(begin), Signal: time.Since(signalled)}, err
}

func main() {
	load.Main(func(options load.Options) (func(unit, id string) (load.Sample, error), error) {
		quiet := slog.New(slog.NewTextHandler(io.Discard, nil))
		ctx, err := dbos.NewContext(context.Background(), dbos.Config{DatabaseURL: options.URI, AppName: "plimsoll", Logger: quiet})
		if err != nil {
			return nil, err
		}
		dbos.RegisterWorkflow(ctx, roundTrip)
		dbos.RegisterWorkflow(ctx, steps)
		dbos.RegisterWorkflow(ctx, timer)
		return func(unit, id string) (load.Sample, error) { return once(ctx, unit, id) }, dbos.Launch(ctx)
	})
}
