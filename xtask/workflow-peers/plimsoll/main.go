// Runs the clients of `plimsoll serve workflow` over HTTP. The steps of an instance are calls of this process, as those of Restate are.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"plimsoll/workflow-peers/load"
)

var waits load.Waits

type engine struct {
	service string
	http    *http.Client
}

// answer makes a step. The first step of a round trip says that its instance asks for the signal; a signal that comes before the wait is kept.
func answer(writer http.ResponseWriter, request *http.Request) {
	if request.URL.Path == "/ask" {
		instance, _, _ := strings.Cut(request.Header.Get("Idempotency-Key"), "/")
		waits.Tell(instance, "")
	}
	writer.Header().Set("Content-Type", "application/json")
	fmt.Fprint(writer, "null")
}

// definitions gives the units; their steps call an address.
func definitions(address string) map[string][]any {
	call := func(path string) any {
		return map[string]any{"http": map[string]any{"url": "http://" + address + path}}
	}
	wait := map[string]any{"wait": map[string]any{"signal": "go"}}
	timer := map[string]any{"timer": map[string]any{"after": "1s"}}
	return map[string][]any{
		"round-trip": {call("/ask"), wait, call("/step")},
		"steps":      {call("/step"), call("/step"), call("/step")},
		"timer":      {timer},
	}
}

func (e *engine) once(unit, id string) (load.Sample, error) {
	begin := time.Now()
	waiting := waits.Expect(id)
	defer waits.Forget(id)
	path := "/api/instances/" + id
	if _, err := e.send(http.MethodPut, path, map[string]any{"definition": unit}); err != nil {
		return load.Sample{}, err
	}
	signalled := begin
	if unit == "round-trip" {
		if _, err := load.Await(waiting, id); err != nil {
			return load.Sample{}, err
		}
		signalled = time.Now()
		if _, err := e.send(http.MethodPut, path+"/signals/1", map[string]any{"name": "go"}); err != nil {
			return load.Sample{}, err
		}
	}
	err := e.end(path)
	return load.Sample{Total: time.Since(begin), Signal: time.Since(signalled)}, err
}

// end waits for the end of an instance.
func (e *engine) end(path string) error {
	text, err := e.send(http.MethodGet, path+"/end?within_ms=60000", nil)
	if err != nil {
		return err
	}
	var end struct{ Status string }
	if err := json.Unmarshal(text, &end); err != nil {
		return err
	}
	if end.Status != "done" {
		return fmt.Errorf("%s: %s", path, text)
	}
	return nil
}

func (e *engine) send(method, path string, body any) ([]byte, error) {
	content, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	if body == nil {
		content = nil
	}
	request, err := http.NewRequest(method, e.service+path, bytes.NewReader(content))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	answer, err := e.http.Do(request)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode >= 300 {
		err = fmt.Errorf("%s %s: %s: %s", method, path, answer.Status, text)
	}
	return text, err
}

// The URI is "service,listen": the URL of the service, and the address that its steps may call.
func prepare(options load.Options) (func(unit, id string) (load.Sample, error), error) {
	service, listen, found := strings.Cut(options.URI, ",")
	if !found {
		return nil, fmt.Errorf("-uri needs the URL of the service and an address to listen on, with a comma between them")
	}
	listener, err := net.Listen("tcp", listen)
	if err != nil {
		return nil, err
	}
	go http.Serve(listener, http.HandlerFunc(answer))
	transport := &http.Transport{MaxIdleConns: 1024, MaxIdleConnsPerHost: 1024}
	e := &engine{service, &http.Client{Transport: transport, Timeout: load.Patience}}
	for name, steps := range definitions(listen) {
		body := map[string]any{"name": name, "steps": steps}
		if _, err := e.send(http.MethodPut, "/api/definitions/"+name, body); err != nil {
			return nil, err
		}
	}
	return e.once, nil
}

func main() { load.Main(prepare) }
