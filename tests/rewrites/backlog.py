"""What became of each candidate of the backlog, by its number there.

A row names rules of the catalogue (`*` stands for any rest of a name), what was left
out ("not shipped: name"), or who else does it, where no law is needed ("no law: who").
Several answers are divided by semicolons. tests/rewrites/test_coverage.py checks the
names.
"""

from __future__ import annotations

_ROWS = """
1 identity_node
2 no law: normalise.py removes Dropout
3 mul_one
4 div_one
5 add_negative_zero
6 add_zero
7 add_zero
8 add_zero; add_zeros_of_any_shape
9 sub_zero; sub_negative_zero
10 sub_self
11 mul_zero
12 div_self
13 neg_neg
14 not_not
15 reciprocal_twice
16 abs_neg
17 abs_abs
18 relu_of_relu
19 sign_sign; not shipped: floor_floor
20 clip_clip_*
21 relu_clip*; clip_relu*
22 max_constants; min_constants
23 min_max_is_clip; max_min_is_clip
24 add_negated; sub_negated
25 product_of_negated; mul_of_negated
26 mul_minus_one
27 neg_of_difference
28 not shipped: mul_two
29 not shipped: commute
30 div_by_constant
31 div_by_constant
32 pow_two
33 pow_half
34 pow_one
35 pow_minus_one
36 not shipped: pow_of_pow
37 not shipped: reciprocal_of_sqrt
38 not shipped: reciprocal_of_sqrt
39 mul_by_reciprocal; mul_by_one_over
40 log_of_exp
41 product_of_exps
42 not shipped: log_of_product
43 not shipped: sqrt_of_square
44 sqrt_times_sqrt
45 mul_mul
46 mul_mul
47 add_add
48 affine_*
49 add_small_*
50 add_of_products
51 add_of_own_product
52 sub_of_square_and_product
53 matmul_common_left
54 conv_sum_of_weights*
55 conv_sum_of_inputs*
56 reciprocal_assoc
57 sqrt_assoc
58 square_of_sums
59 matmul_right_first; matmul_left_first
60 not shipped: 60 rsum_shift
61 prod_of_exp
62 sum_of_scaled; sum_of_multiple
63 sum_of_sums
64 sum_of_negated
65 max_of_shifted
66 not shipped: 66 rmax_relu
67 not shipped: 67 rsum_rsum, 68 rmax_rmax
68 not shipped: 67 rsum_rsum, 68 rmax_rmax
69 sum_of_transpose*
70 not shipped: 70 rsum_reshape
71 not shipped: 71 rsum_broadcast
72 not shipped: 72 rsum_concat
73 mean_from_sum
74 mean_as_global_average_pool
75 *_of_one; *_of_one_dropped
76 sum_of_one
77 squeeze_sum; squeeze_*
78 unsqueeze_sum; unsqueeze_*
79 l2_sqrt
80 log_sum_exp
81 not shipped: cumsum_flip
82 transpose_transpose
83 transpose_identity
84 reshape_transpose_ones; transpose_reshape_ones
85 transpose_below_unary
86 transpose_below_binary
87 transpose_below_reducesum; reducesum_of_transpose
88 transpose_below_concat_*
89 transpose_below_slice
90 transpose_below_pad_*
91 transpose_below_softmax
92 not shipped: 92
93 gemm_transposed_input; gemm_transposed_weight
94 matmul_all_transposed
95 not shipped: constants
96 reshape_of_reshape
97 reshape_identity
98 not shipped: reshape_below_unary
99 reshape_of_reshape
100 reshape_of_reshape
101 flatten_of_reshape; reshape_of_flatten; flatten_identity
102 matmul_of_rows; gemm_of_rows*
103 squeeze_unsqueeze
104 unsqueeze_squeeze
105 unsqueeze_unsqueeze
106 expand_identity
107 expand_in_*
108 expand_expand
109 tile_once
110 tile_to_expand
111 slice_everything
112 slice_slice
113 slice_of_concat_*
114 concat_of_*_slices
115 concat_of_split_*
116 split_of_concat_*
117 concat_of_concat_*
118 concat_single
119 concat_of_empty_*
120 slices_to_split_*
121 slice_of_unary
122 concat_of_unary
123 gather_range
124 gather_gather_*
125 no law: the emitter writes x[:, i] for Gather at one place
126 not shipped: known_shape
127 not shipped: known_shape
128 not shipped: known_shape
129 shape_of_unary; shape_of_binary_*
130 scatter_everything; scatter_rows_in_any_order; not shipped: scatter_slice
131 pad_nothing_*
132 pad_pad*
133 pad_negative*
134 unary_of_pad
135 conv_zero_padded*; conv_padded*
136 max_pool_padded; average_pool_zero_padded; not shipped: 136
137 where_true; where_false
138 where_same
139 where_not_*
140 where_where_*
141 cast_to_own_type
142 cast_*_back
143 cast_float16_float32_float64; cast_uint8_int32_int64; cast_int32_int64_float32
144 cast_float64_float32_float16
145 cast_float32_float16_back
146 not shipped: 146 cast_sink_movement
147 not shipped: cast_of_filled; unary_of_expand
148 quantize_dequantized_*
149 dequantize_quantized
150 not shipped: dequantize_below_movement
151 conv_batchnorm*
152 conv_transpose_batchnorm*; not shipped: 152
153 conv_of_batchnorm*
154 gemm_batchnorm*; matmul_batchnorm
155 conv_mul*; conv_div*
156 conv_add*; conv_sub*
157 conv_scaled_channels*
158 conv_shifted_input*; conv_shifted_padded_input_biased
159 conv_scaled_input*; conv_lowered_input*; conv_mul*; conv_add*
160 matmul_add
161 no law: the emitter writes nn.Linear for Gemm by a stored weight
162 gemm_added*
163 matmul_scaled; matmul_divided
164 matmul_scaled; gemm_scaled*
165 matmul_scaled_input; gemm_scaled_input*
166 gemm_added_biased
167 linear_of_linear; gemm_gemm; product_of_product
168 matmuls_merged*
169 concat_of_convs*; convs_merged*
170 not shipped: 170
171 not shipped: 171
172 matmul_sum; not shipped: 172
173 not shipped: 173
174 not shipped: 174
175 not shipped: 175
176 not shipped: 176
177 conv_zero_bias
178 not shipped: 178
179 not shipped: 179
180 global_average_pool_flatten_*; reduce_mean_flatten_*
181 softmax_quotient
182 softmax_stable
183 softmax_shift
184 log_softmax
185 layer_norm_*
186 rms_norm_*
187 no law: the sum and the LayerNormalization are two lines as they are
188 group_norm_*
189 not shipped: instance_norm_as_layer_norm
190 gelu_erf_*
191 gelu_tanh_*
192 quick_gelu
193 silu
194 over_one_plus_exp
195 sigmoid_tanh
196 hard_swish_*
197 hard_sigmoid_*
198 mish; softplus
199 leaky_relu_*
200 prelu_relu_*
201 attention; attention_masked
202 attention_query_mul; attention_keys_mul
203 attention_roots*
204 attention_grouped*
205 not shipped: rotary
206 not shipped: equal_nodes
207 not shipped: unused_nodes
208 not shipped: constants
209 not shipped: equal_constants
210 not shipped: if_of_constant
211 not shipped: loop_of_constant
212 einsum_*; not shipped: 212
213 depth_to_space_*
214 not shipped: 214
215 not shipped: 215 argmax_softmax
216 not shipped: 216 topk_monotone
217 not shipped: 217
218 no law: the emitter writes nn.Embedding for Gather of a stored table
"""

CANDIDATES: dict[int, str] = {
    int(number): answers
    for number, answers in (row.split(" ", 1) for row in _ROWS.strip().splitlines())
}
