package main

import (
	"context"
	"fmt"

	"github.com/hashicorp/terraform-plugin-go/tfprotov5"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
)

type provider struct {
	// What the labs use none of: data sources, functions, imports. A call of one ends the process, and is seen.
	tfprotov5.ProviderServer

	config    *tfprotov5.Schema
	resources map[string]*tfprotov5.Schema
}

func newProvider() (*provider, error) {
	config, err := schemas.Provider.protocol()
	if err != nil {
		return nil, fmt.Errorf("provider: %w", err)
	}
	made := &provider{config: config, resources: map[string]*tfprotov5.Schema{}}
	for name, schema := range schemas.Resources {
		if made.resources[name], err = schema.protocol(); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	return made, nil
}

func (p *provider) GetProviderSchema(
	_ context.Context, _ *tfprotov5.GetProviderSchemaRequest,
) (*tfprotov5.GetProviderSchemaResponse, error) {
	return &tfprotov5.GetProviderSchemaResponse{Provider: p.config, ResourceSchemas: p.resources}, nil
}

func (p *provider) GetResourceIdentitySchemas(
	_ context.Context, _ *tfprotov5.GetResourceIdentitySchemasRequest,
) (*tfprotov5.GetResourceIdentitySchemasResponse, error) {
	return &tfprotov5.GetResourceIdentitySchemasResponse{}, nil
}

func (p *provider) PrepareProviderConfig(
	_ context.Context, r *tfprotov5.PrepareProviderConfigRequest,
) (*tfprotov5.PrepareProviderConfigResponse, error) {
	return &tfprotov5.PrepareProviderConfigResponse{PreparedConfig: r.Config}, nil
}

func (p *provider) ConfigureProvider(
	_ context.Context, _ *tfprotov5.ConfigureProviderRequest,
) (*tfprotov5.ConfigureProviderResponse, error) {
	return &tfprotov5.ConfigureProviderResponse{}, nil
}

func (p *provider) StopProvider(
	_ context.Context, _ *tfprotov5.StopProviderRequest,
) (*tfprotov5.StopProviderResponse, error) {
	return &tfprotov5.StopProviderResponse{}, nil
}

func (p *provider) ValidateResourceTypeConfig(
	_ context.Context, _ *tfprotov5.ValidateResourceTypeConfigRequest,
) (*tfprotov5.ValidateResourceTypeConfigResponse, error) {
	return &tfprotov5.ValidateResourceTypeConfigResponse{}, nil
}

func (p *provider) UpgradeResourceState(
	_ context.Context, r *tfprotov5.UpgradeResourceStateRequest,
) (*tfprotov5.UpgradeResourceStateResponse, error) {
	typ := p.resources[r.TypeName].ValueType()
	value, err := r.RawState.Unmarshal(typ)
	if err != nil {
		return nil, err
	}
	state, err := tfprotov5.NewDynamicValue(typ, value)
	return &tfprotov5.UpgradeResourceStateResponse{UpgradedState: &state}, err
}

// Nobody changes a made-up cloud.
func (p *provider) ReadResource(
	_ context.Context, r *tfprotov5.ReadResourceRequest,
) (*tfprotov5.ReadResourceResponse, error) {
	return &tfprotov5.ReadResourceResponse{NewState: r.CurrentState, Private: r.Private}, nil
}

func (p *provider) PlanResourceChange(
	_ context.Context, r *tfprotov5.PlanResourceChangeRequest,
) (*tfprotov5.PlanResourceChangeResponse, error) {
	state, err := p.changed(r.TypeName, r.ProposedNewState, func(value tftypes.Value) (tftypes.Value, error) {
		return planned(p.resources[r.TypeName].Block, value)
	})
	return &tfprotov5.PlanResourceChangeResponse{PlannedState: state}, err
}

func (p *provider) ApplyResourceChange(
	_ context.Context, r *tfprotov5.ApplyResourceChangeRequest,
) (*tfprotov5.ApplyResourceChangeResponse, error) {
	state, err := p.changed(r.TypeName, r.PlannedState, func(value tftypes.Value) (tftypes.Value, error) {
		return made(r.TypeName, value)
	})
	return &tfprotov5.ApplyResourceChangeResponse{NewState: state}, err
}

// What is to be no more stays null.
func (p *provider) changed(
	name string, from *tfprotov5.DynamicValue, change func(tftypes.Value) (tftypes.Value, error),
) (*tfprotov5.DynamicValue, error) {
	typ := p.resources[name].ValueType()
	value, err := from.Unmarshal(typ)
	if err != nil || value.IsNull() {
		return from, err
	}
	if value, err = change(value); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	changed, err := tfprotov5.NewDynamicValue(typ, value)
	return &changed, err
}
