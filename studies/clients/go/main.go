// One application on Go's database/sql or on pgxpool: requests at a steady rate, whatever became of those before.
// The contract of arguments and output is in ../README.md.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
)

const question = "SELECT 1"

type options struct {
	library, host, settings string
	port                    int
	rate                    float64
	lasts, deadline, limit  float64
	begin                   int64
}

// What became of one request. Error is a class of errors, never a text of the library.
type row struct {
	N        int     `json:"n"`
	DueNs    int64   `json:"due_ns"`
	End      string  `json:"end"`
	WaitedNs int64   `json:"waited_ns"`
	Error    *string `json:"error"`
}

type sums struct {
	Due       int            `json:"due"`
	Answered  int            `json:"answered"`
	Failed    int            `json:"failed"`
	Ambiguous int            `json:"ambiguous"`
	Library   string         `json:"library"`
	Version   string         `json:"version"`
	Settings  string         `json:"settings"`
	Applied   map[string]any `json:"applied"`
}

type sentKey struct{}

// The library itself says by this when it sends the request; a ping before it is something else.
type witness struct{}

func (witness) TraceQueryStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	if sent, ok := ctx.Value(sentKey{}).(*atomic.Bool); ok && data.SQL == question {
		sent.Store(true)
	}
	return ctx
}

func (witness) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// What is added to the address: every timeout is a second shorter than the caller's.
func extra(o options) string {
	if o.settings == "default" {
		return ""
	}
	return fmt.Sprintf("?connect_timeout=%d", int(o.deadline)-1)
}

type ask func(context.Context) error

func pgxPool(o options, url string) (ask, map[string]any, error) {
	if o.settings == "advised" {
		idle := int(o.limit * 500)
		url += fmt.Sprintf("&pool_max_conn_idle_time=%dms&pool_health_check_period=%dms&pool_ping_timeout=1s", idle, idle/2)
	}
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, nil, err
	}
	config.ConnConfig.Tracer = witness{}
	pool, err := pgxpool.NewWithConfig(context.Background(), config)
	if err != nil {
		return nil, nil, err
	}
	applied := map[string]any{
		"pool_max_conns": config.MaxConns, "pool_max_conn_idle_time": config.MaxConnIdleTime.String(),
		"pool_health_check_period": config.HealthCheckPeriod.String(), "pool_ping_timeout": config.PingTimeout.String(),
		"connect_timeout": config.ConnConfig.ConnectTimeout.String(),
	}
	return func(ctx context.Context) error {
		var one int
		return pool.QueryRow(ctx, question).Scan(&one)
	}, applied, nil
}

func databaseSQL(o options, url string) (ask, map[string]any, error) {
	config, err := pgx.ParseConfig(url)
	if err != nil {
		return nil, nil, err
	}
	config.Tracer = witness{}
	db := stdlib.OpenDB(*config)
	var idle time.Duration
	if o.settings == "advised" {
		idle = time.Duration(o.limit / 2 * float64(time.Second))
		db.SetConnMaxIdleTime(idle)
	}
	applied := map[string]any{"SetConnMaxIdleTime": idle.String(), "connect_timeout": config.ConnectTimeout.String()}
	return func(ctx context.Context) error {
		var one int
		return db.QueryRowContext(ctx, question).Scan(&one)
	}, applied, nil
}

func class(err error) *string {
	name := "other"
	var server *pgconn.PgError
	var network net.Error
	switch {
	case err == nil:
		return nil
	case errors.Is(err, context.DeadlineExceeded):
		name = "deadline"
	case errors.As(err, &server):
		name = "server:" + server.Code
	case errors.As(err, new(*pgconn.ConnectError)):
		name = "connect"
	case errors.As(err, &network):
		name = "network"
	}
	return &name
}

func one(o options, ask ask, n int, begin time.Time) row {
	due := time.Duration(float64(n) / o.rate * float64(time.Second))
	time.Sleep(time.Until(begin.Add(due)))
	deadline := begin.Add(due).Add(time.Duration(o.deadline * float64(time.Second)))
	ctx, cancel := context.WithDeadline(context.Background(), deadline)
	defer cancel()
	var sent atomic.Bool
	err := ask(context.WithValue(ctx, sentKey{}, &sent))
	end := "answered"
	if err != nil && sent.Load() {
		end = "ambiguous"
	} else if err != nil {
		end = "failed"
	}
	return row{n, due.Nanoseconds(), end, time.Since(begin.Add(due)).Nanoseconds(), class(err)}
}

// All requests that are due within the time: the n-th at n / rate.
func run(o options, ask ask) sums {
	begin := time.Now()
	if o.begin > 0 {
		begin = begin.Add(time.Until(time.UnixMilli(o.begin)))
	}
	var total sums
	var lock sync.Mutex
	var all sync.WaitGroup
	out := json.NewEncoder(os.Stdout)
	for n := 0; float64(n)/o.rate < o.lasts; n++ {
		total.Due++
		all.Add(1)
		go func() {
			defer all.Done()
			r := one(o, ask, n, begin)
			lock.Lock()
			defer lock.Unlock()
			switch r.End {
			case "answered":
				total.Answered++
			case "failed":
				total.Failed++
			default:
				total.Ambiguous++
			}
			_ = out.Encode(r)
		}()
	}
	all.Wait()
	return total
}

func version() string {
	info, _ := debug.ReadBuildInfo()
	for _, module := range info.Deps {
		if module.Path == "github.com/jackc/pgx/v5" {
			return "pgx " + module.Version + ", " + info.GoVersion
		}
	}
	return "unknown"
}

func main() {
	var o options
	flag.StringVar(&o.library, "library", "pgxpool", "pgxpool or database-sql")
	flag.StringVar(&o.host, "host", "127.0.0.1", "where the database is")
	flag.IntVar(&o.port, "port", 5432, "its port")
	flag.Float64Var(&o.rate, "rate", 1, "requests a second")
	flag.Float64Var(&o.lasts, "for", 10, "seconds in which requests are due")
	flag.Float64Var(&o.deadline, "deadline", 5, "seconds that a caller waits")
	flag.Float64Var(&o.limit, "idle-limit", 7, "seconds: what the advised settings are advised against")
	flag.Int64Var(&o.begin, "begin", 0, "when the first is due: milliseconds since 1970")
	flag.StringVar(&o.settings, "settings", "default", "default or advised")
	flag.Parse()
	if o.rate <= 0 || o.deadline <= 1 || (o.settings != "default" && o.settings != "advised") {
		fmt.Fprintln(os.Stderr, "a rate above 0, a deadline above 1 and settings default or advised are needed")
		os.Exit(2)
	}
	url := fmt.Sprintf("postgres://app@%s/postgres", net.JoinHostPort(o.host, fmt.Sprint(o.port))) + extra(o)
	var ask ask
	var applied map[string]any
	var err error
	switch o.library {
	case "pgxpool":
		ask, applied, err = pgxPool(o, url)
	case "database-sql":
		ask, applied, err = databaseSQL(o, url)
	default:
		err = fmt.Errorf("no library %q: pgxpool or database-sql", o.library)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	total := run(o, ask)
	total.Library, total.Version, total.Settings, total.Applied = o.library, version(), o.settings, applied
	_ = json.NewEncoder(os.Stdout).Encode(total)
}
