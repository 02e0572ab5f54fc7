package main

import (
	"context"
	"fmt"
	"os"
	"slices"

	"github.com/hashicorp/terraform-plugin-go/tfprotov5"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
)

// Names the account whose login the provider is to have; without it every one is let in.
const accountOfLogin = "FATHOM_STANDIN_ACCOUNT"

type provider struct {
	// What the labs use none of: functions, imports. A call of one ends the process, and is seen.
	tfprotov5.ProviderServer

	config    *tfprotov5.Schema
	resources map[string]*tfprotov5.Schema
	data      map[string]*tfprotov5.Schema
}

func newProvider(schemas schemaFile) (made *provider, err error) {
	made = &provider{}
	if made.config, err = schemas.Provider.protocol(); err != nil {
		return nil, fmt.Errorf("provider: %w", err)
	}
	if made.resources, err = protocolsOf(schemas.Resources); err != nil {
		return nil, err
	}
	made.data, err = protocolsOf(schemas.Data)
	return made, err
}

func (p *provider) GetProviderSchema(
	_ context.Context, _ *tfprotov5.GetProviderSchemaRequest,
) (*tfprotov5.GetProviderSchemaResponse, error) {
	return &tfprotov5.GetProviderSchemaResponse{
		Provider: p.config, ResourceSchemas: p.resources, DataSourceSchemas: p.data,
	}, nil
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

// As the real provider of AWS does, it refuses a login of an account that is not allowed.
func (p *provider) ConfigureProvider(
	_ context.Context, r *tfprotov5.ConfigureProviderRequest,
) (*tfprotov5.ConfigureProviderResponse, error) {
	account := os.Getenv(accountOfLogin)
	allowed, err := allowedAccounts(p.config, r.Config)
	if err != nil || account == "" || len(allowed) == 0 || slices.Contains(allowed, account) {
		return &tfprotov5.ConfigureProviderResponse{}, err
	}
	return &tfprotov5.ConfigureProviderResponse{Diagnostics: []*tfprotov5.Diagnostic{{
		Severity: tfprotov5.DiagnosticSeverityError,
		Summary:  "AWS account ID not allowed: " + account,
	}}}, nil
}

// What the configuration allows; none: every account.
func allowedAccounts(schema *tfprotov5.Schema, config *tfprotov5.DynamicValue) ([]string, error) {
	value, err := config.Unmarshal(schema.ValueType())
	if err != nil {
		return nil, err
	}
	var fields map[string]tftypes.Value
	if err := value.As(&fields); err != nil {
		return nil, err
	}
	var accounts []tftypes.Value
	allowed, has := fields["allowed_account_ids"]
	if !has || !allowed.IsFullyKnown() {
		return nil, nil
	}
	if err := allowed.As(&accounts); err != nil {
		return nil, err
	}
	names := make([]string, len(accounts))
	for i, account := range accounts {
		if err := account.As(&names[i]); err != nil {
			return nil, err
		}
	}
	return names, nil
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

func (p *provider) ValidateDataSourceConfig(
	_ context.Context, _ *tfprotov5.ValidateDataSourceConfigRequest,
) (*tfprotov5.ValidateDataSourceConfigResponse, error) {
	return &tfprotov5.ValidateDataSourceConfigResponse{}, nil
}

// What is asked for is there.
func (p *provider) ReadDataSource(
	_ context.Context, r *tfprotov5.ReadDataSourceRequest,
) (*tfprotov5.ReadDataSourceResponse, error) {
	schema := p.data[r.TypeName]
	state, err := changed(r.TypeName, schema, r.Config, func(value tftypes.Value) (tftypes.Value, error) {
		asked, err := planned(schema.Block, value)
		if err != nil {
			return value, err
		}
		return made(r.TypeName, asked)
	})
	return &tfprotov5.ReadDataSourceResponse{State: state}, err
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
	schema := p.resources[r.TypeName]
	state, err := changed(r.TypeName, schema, r.ProposedNewState, func(value tftypes.Value) (tftypes.Value, error) {
		return planned(schema.Block, value)
	})
	return &tfprotov5.PlanResourceChangeResponse{PlannedState: state}, err
}

func (p *provider) ApplyResourceChange(
	_ context.Context, r *tfprotov5.ApplyResourceChangeRequest,
) (*tfprotov5.ApplyResourceChangeResponse, error) {
	schema := p.resources[r.TypeName]
	state, err := changed(r.TypeName, schema, r.PlannedState, func(value tftypes.Value) (tftypes.Value, error) {
		return made(r.TypeName, value)
	})
	return &tfprotov5.ApplyResourceChangeResponse{NewState: state}, err
}

// What is to be no more stays null.
func changed(
	name string, schema *tfprotov5.Schema, from *tfprotov5.DynamicValue,
	change func(tftypes.Value) (tftypes.Value, error),
) (*tfprotov5.DynamicValue, error) {
	typ := schema.ValueType()
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
