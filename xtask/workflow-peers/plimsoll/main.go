// Runs the clients of this project's workflow service over HTTP. The service runs the steps.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"

	"plimsoll/workflow-peers/load"
)

// The same units as those of the engine as a library.
var definitions = map[string]string{
	"round-trip": `{"name": "round-trip", "steps": [
		{"service": {"name": "before", "function": "nothing"}},
		{"wait": {"name": "go", "signal": "go"}},
		{"service": {"name": "after", "function": "nothing"}}]}`,
	"steps": `{"name": "steps", "steps": [
		{"service": {"name": "one", "function": "nothing"}},
		{"service": {"name": "two", "function": "nothing"}},
		{"service": {"name": "three", "function": "nothing"}}]}`,
	"timer": `{"name": "timer", "steps": [{"timer": {"name": "rest", "after": "1s"}}]}`,
}

// instance holds the fields of an instance that a client needs.
type instance struct {
	Status  string `json:"status"`
	Version uint64 `json:"version"`
	DueMs   *int64 `json:"due_ms"`
	Error   any    `json:"error"`
}

type service struct {
	uri  string
	http *http.Client
}

func (s *service) once(unit, id string) (load.Sample, error) {
	ctx, cancel := context.WithTimeout(context.Background(), load.Patience)
	defer cancel()
	begin, path := time.Now(), "/api/instances/"+id
	if err := s.ask(ctx, http.MethodPut, path, fmt.Sprintf(`{"definition": %q}`, unit), nil); err != nil {
		return load.Sample{}, err
	}
	// A start writes version 1.
	version, signalled := uint64(1), begin
	if unit == "round-trip" {
		// A running instance that is never due waits for its signal.
		waits := func(one instance) bool { return one.Status == "running" && one.DueMs == nil }
		if err := s.until(ctx, path, &version, waits); err != nil {
			return load.Sample{}, err
		}
		signalled = time.Now()
		if err := s.ask(ctx, http.MethodPut, path+"/signals/1", `{"name": "go"}`, nil); err != nil {
			return load.Sample{}, err
		}
	}
	err := s.until(ctx, path, &version, func(one instance) bool { return one.Status == "done" })
	return load.Sample{Total: time.Since(begin), Signal: time.Since(signalled)}, err
}

// until waits for changes of an instance after a version, until one reaches a state.
func (s *service) until(ctx context.Context, path string, version *uint64, isReached func(instance) bool) error {
	for {
		var one instance
		if err := s.ask(ctx, http.MethodGet, fmt.Sprintf("%s/wait?after=%d", path, *version), "", &one); err != nil {
			return err
		}
		*version = one.Version
		if isReached(one) {
			return nil
		}
		if one.Status != "running" {
			return fmt.Errorf("%s ended as %s: %v", path, one.Status, one.Error)
		}
	}
}

// ask sends a request, and reads the answer as JSON if there is a place for it.
func (s *service) ask(ctx context.Context, method, path, body string, answer any) error {
	request, err := http.NewRequestWithContext(ctx, method, s.uri+path, bytes.NewBufferString(body))
	if err != nil {
		return err
	}
	if body != "" {
		request.Header.Set("Content-Type", "application/json")
	}
	response, err := s.http.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	if response.StatusCode >= 300 {
		return fmt.Errorf("%s %s: %s: %s", method, path, response.Status, text)
	}
	if answer == nil {
		return nil
	}
	return json.Unmarshal(text, answer)
}

func prepare(options load.Options) (func(unit, id string) (load.Sample, error), error) {
	transport := &http.Transport{MaxIdleConns: 1024, MaxIdleConnsPerHost: 1024}
	s := &service{options.URI, &http.Client{Transport: transport}}
	ctx, cancel := context.WithTimeout(context.Background(), load.Patience)
	defer cancel()
	for name, definition := range definitions {
		if err := s.ask(ctx, http.MethodPut, "/api/definitions/"+name, definition, nil); err != nil {
			return nil, err
		}
	}
	return s.once, nil
}

func main() { load.Main(prepare) }
