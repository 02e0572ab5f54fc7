package main

import (
	"context"
	"encoding/json"
	"io"
	"os"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"
	"github.com/hashicorp/terraform-plugin-go/tfprotov5"
	"github.com/hashicorp/terraform-plugin-go/tfprotov5/tf5server"
)

// What TF_REATTACH_PROVIDERS says of one provider.
type reattach struct {
	Protocol        string
	ProtocolVersion int
	Pid             int
	Test            bool
	Addr            struct{ Network, String string }
}

// Serves any number of the tool's runs, so that none of them starts a provider three times. Writes to `out` what the
// tool's environment has to have as TF_REATTACH_PROVIDERS. Ends where `in` does: with the process that asked for it,
// however that ends.
func serveTill(in io.Reader, out io.Writer, name string, provider tfprotov5.ProviderServer) error {
	ctx, end := context.WithCancel(context.Background())
	defer end()
	told, ended := make(chan *plugin.ReattachConfig), make(chan struct{})
	failed := make(chan error, 1)
	go func() {
		failed <- tf5server.Serve("registry.terraform.io/hashicorp/"+name, func() tfprotov5.ProviderServer { return provider },
			tf5server.WithDebug(ctx, told, ended), tf5server.WithGoPluginLogger(hclog.NewNullLogger()))
	}()
	select {
	case err := <-failed:
		return err
	case config := <-told:
		one := reattach{Protocol: string(config.Protocol), ProtocolVersion: config.ProtocolVersion, Pid: os.Getpid(), Test: true}
		one.Addr.Network, one.Addr.String = config.Addr.Network(), config.Addr.String()
		// Without a registry: each tool takes its own for meant.
		if err := json.NewEncoder(out).Encode(map[string]reattach{"hashicorp/" + name: one}); err != nil {
			return err
		}
	}
	_, _ = io.Copy(io.Discard, in)
	end()
	<-ended
	return nil
}
