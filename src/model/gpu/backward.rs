//! The layers backward: the gradient of every weight is added to the sums, that of a layer's input takes the
//! place of its output's.

use candle_core::{Result, Tensor};
use tealight_gpu::kernels;

use super::super::decoder::Layer;
use super::super::ops::Linear;
use super::super::{Decoder, lora};
use super::forward::{Inside, Kept};
use super::{Pass, Sums, sum_of};

/// From the gradient `grad` `[N, D]` of the normed hidden states to those of all weights.
pub(super) fn body(
    decoder: &Decoder,
    pass: &Pass,
    ids: &[u32],
    (kept, last): (Vec<Kept>, Tensor),
    grad: &Tensor,
    sums: &mut Sums,
) -> Result<()> {
    let dx = grad.zeros_like()?;
    let eps = decoder.architecture.rms_norm_eps;
    norm(&decoder.norm, "model.norm.weight", eps, &last, grad, &dx, sums)?;
    drop(last);
    for (layer, kept) in decoder.layers.iter().zip(kept).rev() {
        let Kept { input, rest } = kept;
        let inside = match rest {
            Some(inside) => inside,
            None => {
                let again = layer.on_gpu(decoder, pass, &input, None, None)?;
                again.2.rest.expect("a forward pass keeps what it computes")
            }
        };
        layer.back_on_gpu(decoder, pass, &input, inside, &dx, sums)?;
    }
    let embedding = &decoder.embedding;
    if embedding.track_op() {
        let name = "model.embed_tokens.weight";
        let sum = sum_of(sums, name, embedding.shape(), embedding.device())?;
        kernels::embedding_back(&dx, ids, &sum)?;
    }
    Ok(())
}

/// Adds the gradients of a norm's input and weight.
fn norm(
    weight: &Tensor,
    name: &str,
    eps: f64,
    x: &Tensor,
    grad: &Tensor,
    dx: &Tensor,
    sums: &mut Sums,
) -> Result<()> {
    let sum = match weight.track_op() {
        true => Some(sum_of(sums, name, weight.shape(), weight.device())?),
        // A norm beside adapters is not trained.
        false => None,
    };
    kernels::norm_back(x, &weight.detach(), grad, dx, sum.as_ref(), eps)
}

impl Linear {
    /// Adds the gradients of weight and bias, or of the adapter in their place, for the gradient `grad` `[N, out]`
    /// of the result of `x` `[N, in]`; returns that of `x`.
    fn back_on_gpu(
        &self,
        name: &str,
        x: &Tensor,
        grad: &Tensor,
        pass: &Pass,
        sums: &mut Sums,
    ) -> Result<Tensor> {
        let dx = grad.matmul(&self.weight.detach())?;
        if let Some(adapter) = &self.adapter {
            let (more, own) = adapter.back_on_gpu(x, grad, pass.dropout)?;
            kernels::add(&dx, &more)?;
            for (name, gradient) in lora::names(name).iter().zip(own) {
                let sum = sum_of(sums, name, gradient.shape(), gradient.device())?;
                kernels::add_to(&sum, &gradient)?;
            }
        }
        if self.weight.track_op() {
            let (own, device) = (format!("{name}.weight"), grad.device());
            let sum = sum_of(sums, &own, self.weight.shape(), device)?;
            kernels::add_to(&sum, &grad.t()?.matmul(x)?)?;
            if let Some(bias) = &self.bias {
                let sum = sum_of(sums, &format!("{name}.bias"), bias.shape(), device)?;
                kernels::column_sums(grad, &sum)?;
            }
        }
        Ok(dx)
    }
}

impl Layer {
    /// `dx` goes in as the gradient of the layer's result and comes out as that of its input.
    fn back_on_gpu(
        &self,
        decoder: &Decoder,
        pass: &Pass,
        input: &Tensor,
        inside: Inside,
        dx: &Tensor,
        sums: &mut Sums,
    ) -> Result<()> {
        let eps = decoder.architecture.rms_norm_eps;
        let name = |part: &str| format!("{}{part}", self.prefix);
        let Inside { qkv: [q, k, v], raw, attended, middle, gate, up } = inside;

        // The feed-forward block.
        let wide = kernels::swiglu(&gate, &up)?;
        let d_wide = self.down.back_on_gpu(&name("mlp.down_proj"), &wide, dx, pass, sums)?;
        drop(wide);
        kernels::swiglu_back(&gate, &up, &d_wide)?;
        drop(d_wide);
        let normed = kernels::add_norm(&middle, None, &self.post_norm.detach(), eps)?.1;
        let d_normed = self.gate.back_on_gpu(&name("mlp.gate_proj"), &normed, &gate, pass, sums)?;
        let more = self.up.back_on_gpu(&name("mlp.up_proj"), &normed, &up, pass, sums)?;
        kernels::add(&d_normed, &more)?;
        let own = name("post_attention_layernorm.weight");
        norm(&self.post_norm, &own, eps, &middle, &d_normed, dx, sums)?;

        // Attention.
        let own = name("self_attn.o_proj");
        let d_attended = self.output.back_on_gpu(&own, &attended.0, dx, pass, sums)?;
        let [mut dq, mut dk, dv] = kernels::attention_back(
            [&q, &k, &v],
            (&attended.0, &attended.1),
            &d_attended,
            &pass.runs,
        )?;
        kernels::rope(&dq, &pass.cos, &pass.sin, true)?;
        kernels::rope(&dk, &pass.cos, &pass.sin, true)?;
        if let (Some([q_norm, k_norm]), Some([raw_q, raw_k])) = (&self.qk_norm, &raw) {
            for (weight, part, raw, grad) in [
                (q_norm, "self_attn.q_norm.weight", raw_q, &mut dq),
                (k_norm, "self_attn.k_norm.weight", raw_k, &mut dk),
            ] {
                let d_raw = raw.zeros_like()?;
                norm(weight, &name(part), eps, raw, grad, &d_raw, sums)?;
                *grad = d_raw;
            }
        }
        let normed = kernels::add_norm(input, None, &self.input_norm.detach(), eps)?.1;
        let d_normed = self.q.back_on_gpu(&name("self_attn.q_proj"), &normed, &dq, pass, sums)?;
        for (linear, part, grad) in
            [(&self.k, "self_attn.k_proj", &dk), (&self.v, "self_attn.v_proj", &dv)]
        {
            let more = linear.back_on_gpu(&name(part), &normed, grad, pass, sums)?;
            kernels::add(&d_normed, &more)?;
        }
        let own = name("input_layernorm.weight");
        norm(&self.input_norm, &own, eps, input, &d_normed, dx, sums)
    }
}
