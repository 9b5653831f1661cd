// Runs Temporal's server with all its services in one process, on a new schema in PostgreSQL.
package main

import (
	"context"
	"flag"
	"fmt"
	"net"
	"net/url"
	"os"
	"time"

	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/server/common/cluster"
	"go.temporal.io/server/common/config"
	"go.temporal.io/server/common/log"
	"go.temporal.io/server/common/membership/static"
	"go.temporal.io/server/common/persistence/sql/sqlplugin/postgresql"
	"go.temporal.io/server/common/primitives"
	"go.temporal.io/server/temporal"
	"go.temporal.io/server/tools/sql"
	"google.golang.org/protobuf/types/known/durationpb"
)

const (
	local = "127.0.0.1"
	// The values of the server's example for PostgreSQL.
	shards, connections, visibilityConnections = 4, 20, 2
	// The limit of the start.
	patience = 60 * time.Second
)

func main() {
	uri := flag.String("uri", "", "PostgreSQL: postgres://user@host:port/database")
	flag.Parse()
	if err := run(*uri); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run prints the address of the frontend once a namespace is usable.
func run(uri string) error {
	database, err := url.Parse(uri)
	if err != nil {
		return err
	}
	for _, name := range []string{"temporal", "visibility"} {
		if err := makeSchema(database, name); err != nil {
			return err
		}
	}
	ports, err := freePorts(4)
	if err != nil {
		return err
	}
	frontend := fmt.Sprintf("%s:%d", local, ports[0])
	logger := log.NewZapLogger(log.BuildZapLogger(log.Config{Level: "error"}))
	server, err := temporal.NewServer(
		temporal.WithConfig(settings(database, ports, frontend)),
		temporal.ForServices(temporal.DefaultServices),
		temporal.WithStaticHosts(hosts(ports)),
		temporal.WithLogger(logger),
		temporal.InterruptOn(temporal.InterruptCh()),
	)
	if err != nil {
		return err
	}
	go announce(frontend)
	return server.Start()
}

// makeSchema makes one of the two databases, with the schema that the server contains.
func makeSchema(database *url.URL, name string) error {
	tool := func(words ...string) error {
		options := []string{
			"temporal-sql-tool", "--plugin", postgresql.PluginName, "--endpoint", database.Hostname(), "--port", database.Port(),
			"--user", database.User.Username(), "--database", name,
		}
		return sql.RunTool(append(options, words...))
	}
	if err := tool("create-database", "--defaultdb", "postgres"); err != nil {
		return err
	}
	if err := tool("setup-schema", "--version", "0.0"); err != nil {
		return err
	}
	return tool("update-schema", "--schema-name", "postgresql/v12/"+name)
}

func settings(database *url.URL, ports []int, frontend string) *config.Config {
	store := func(name string, most int) config.DataStore {
		return config.DataStore{SQL: &config.SQL{
			PluginName: postgresql.PluginName, DatabaseName: name, ConnectProtocol: "tcp", ConnectAddr: database.Host,
			User: database.User.Username(), MaxConns: most, MaxIdleConns: most, MaxConnLifetime: time.Hour,
		}}
	}
	service := func(port int) config.Service {
		return config.Service{RPC: config.RPC{GRPCPort: port, BindOnLocalHost: true}}
	}
	return &config.Config{
		Persistence: config.Persistence{
			DefaultStore: "main", VisibilityStore: "visibility", NumHistoryShards: shards,
			DataStores: map[string]config.DataStore{
				"main":       store("temporal", connections),
				"visibility": store("visibility", visibilityConnections),
			},
		},
		ClusterMetadata: &cluster.Config{
			FailoverVersionIncrement: 10, MasterClusterName: "active", CurrentClusterName: "active",
			ClusterInformation: map[string]cluster.ClusterInformation{
				"active": {Enabled: true, InitialFailoverVersion: 1, RPCAddress: frontend},
			},
		},
		DCRedirectionPolicy: config.DCRedirectionPolicy{Policy: "noop"},
		Services: map[string]config.Service{
			"frontend": service(ports[0]), "history": service(ports[1]), "matching": service(ports[2]), "worker": service(ports[3]),
		},
		Archival: config.Archival{
			History: config.HistoryArchival{State: "disabled"}, Visibility: config.VisibilityArchival{State: "disabled"},
		},
		NamespaceDefaults: config.NamespaceDefaults{Archival: config.ArchivalNamespaceDefaults{
			History:    config.HistoryArchivalNamespaceDefaults{State: "disabled"},
			Visibility: config.VisibilityArchivalNamespaceDefaults{State: "disabled"},
		}},
		PublicClient: config.PublicClient{HostPort: frontend},
	}
}

// hosts lists the one process as the only member of each service.
func hosts(ports []int) map[primitives.ServiceName]static.Hosts {
	at := func(port int) static.Hosts { return static.SingleLocalHost(fmt.Sprintf("%s:%d", local, port)) }
	return map[primitives.ServiceName]static.Hosts{
		primitives.FrontendService: at(ports[0]), primitives.HistoryService: at(ports[1]),
		primitives.MatchingService: at(ports[2]), primitives.WorkerService: at(ports[3]),
	}
}

// freePorts finds different ports.
func freePorts(count int) ([]int, error) {
	var ports []int
	for range count {
		listener, err := net.Listen("tcp", local+":0")
		if err != nil {
			return nil, err
		}
		defer listener.Close()
		ports = append(ports, listener.Addr().(*net.TCPAddr).Port)
	}
	return ports, nil
}

// announce registers the namespace `default`, waits until the server knows it, and prints the address.
func announce(frontend string) {
	deadline := time.Now().Add(patience)
	for {
		err := register(frontend)
		if err == nil {
			fmt.Println("listening on " + frontend)
			return
		}
		if time.Now().After(deadline) {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

func register(frontend string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	namespaces, err := client.NewNamespaceClient(client.Options{HostPort: frontend})
	if err != nil {
		return err
	}
	defer namespaces.Close()
	if _, err := namespaces.Describe(ctx, client.DefaultNamespace); err != nil {
		return firstError(namespaces.Register(ctx, &workflowservice.RegisterNamespaceRequest{
			Namespace: client.DefaultNamespace, WorkflowExecutionRetentionPeriod: durationpb.New(24 * time.Hour),
		}), err)
	}
	// A request about an instance succeeds only once the server has loaded the namespace.
	instances, err := client.DialContext(ctx, client.Options{HostPort: frontend})
	if err != nil {
		return err
	}
	defer instances.Close()
	_, err = instances.DescribeTaskQueue(ctx, "bench", 0)
	return err
}

// firstError gives the first error, or else the second.
func firstError(first, second error) error {
	if first != nil {
		return first
	}
	return second
}
