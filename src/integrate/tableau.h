// Runge-Kutta methods as constants. Explicit ones:
//
//   k_i = f(t + c_i h, x + h Σ_j A_ij k_j), j < i
//   x'  = x + h Σ b_i k_i,                  error = h Σ (b_i - bhat_i) k_i
//   x(t + θ h) = x + h Σ b_i(θ) k_i,        b_i(θ) = Σ_m dense_im θ^(m+1)
//
// Linearly implicit ones (Rosenbrock) have the same but for k_i, with W = ∂f/∂x at the start:
//
//   (1/gamma - h W) k_i = f(t + c_i h, x + h Σ_j A_ij k_j) + Σ_j C_ij k_j + gamma_i h ∂f/∂t, j < i
//
// Every condition on A, b, bhat and b(θ) up to their orders is checked at compile time, in long
// double, in tableau.cc. docs/derivations/adaptive.md, eq. 1 and 2, stiff.md, eq. 1 and 2.
//
//   method                                                stages  order  dense output
//   explicit_euler, heun, midpoint, ralston                  1-2    1-2  cubic Hermite
//   bosh3   3(2) [Bogacki89]                                   4      3  cubic Hermite
//   tsit5   5(4) [Tsitouras11]                                 7      5  of order 4, his
//   dopri5  5(4) 7M [DormandPrince80]                          7      5  of order 4 [Shampine86]
//   dopri8  8(7) 13M [PrinceDormand81]                        14      8  of order 5 [Bogacki90]
//   rodas4p 4(3), linearly implicit [Steinebach95]            6+1     4  of order 3, his
#ifndef DIFFMJ_INTEGRATE_TABLEAU_H_
#define DIFFMJ_INTEGRATE_TABLEAU_H_

#include <array>
#include <cstddef>
#include <span>
#include <string_view>

namespace diffmj {

inline constexpr size_t kMaxStage = 14;
inline constexpr size_t kMaxDense = 6;  // the highest power of θ

// Numbers are double where they are used, long double where they are written down and checked.
template <class Real>
struct TableauOf {
  using Row = std::array<Real, kMaxStage>;

  const char* name = "";
  size_t nstage = 0;
  int order = 0;           // of b
  int embedded_order = 0;  // of bhat; 0: no error estimate, bhat = b
  // The last stage is f(t + h, x'): the first of the next step.
  bool fsal = false;
  std::array<Row, kMaxStage> A = {};  // nk x nstage, strictly lower triangular
  Row b = {}, bhat = {}, c = {};      // nstage, nstage, nk
  Row error = {};                     // nstage: b - bhat
  // Dense output reads nk stages: nstage, and f(t + h, x') after them where it is not one of them.
  // A and c have a row for it.
  size_t nk = 0;
  int dense_order = 0;
  std::array<std::array<Real, kMaxDense>, kMaxStage> dense = {};  // nk x kMaxDense

  // Of linearly implicit methods, whose last stage is f(t + h, x') alone; gamma = 0: explicit.
  Real gamma = 0;
  std::array<Row, kMaxStage> C = {};  // nsolve x nsolve, strictly lower triangular
  Row gamma_time = {};                // nsolve: gamma_i

  constexpr bool implicit() const { return gamma != 0; }
  // The stages with a k of their own.
  constexpr size_t nsolve() const { return nstage - 1; }
  // The last stage has no part in the error: it can wait until the step is accepted.
  constexpr bool last_stage_can_wait() const { return fsal && error[nstage - 1] == 0; }
};
using Tableau = TableauOf<double>;

// w_i = b_i(θ) for 0 ≤ θ ≤ 1; w has size nk. w(0) = 0, w(1) = b.
void dense_weights(const Tableau& tableau, double theta, std::span<double> w);
// w_i = d b_i / dθ; at the ends one of them is 1, the others 0: x' (t) is continuous over steps.
void dense_slopes(const Tableau& tableau, double theta, std::span<double> w);

namespace exact {

using ExactTableau = TableauOf<long double>;

// Fills in what follows from A, b and bhat: c, error, the stage at the end of the step, and cubic
// Hermite where there are no dense coefficients,
//   b_i(θ) = (3 θ² - 2 θ³) b_i  + (θ - 2 θ² + θ³) of the first  + (θ³ - θ²) of the end
constexpr ExactTableau complete(ExactTableau t) {
  t.nk = t.fsal ? t.nstage : t.nstage + 1;
  const size_t end = t.nk - 1;
  t.A[end] = t.b;
  if (t.embedded_order == 0) t.bhat = t.b;
  for (size_t i = 0; i < t.nk; i++) {
    long double sum = 0;
    for (size_t j = 0; j < i; j++) sum += t.A[i][j];
    if (t.c[i] == 0) t.c[i] = sum;
    t.error[i] = t.b[i] - t.bhat[i];
  }
  if (t.dense_order == 0) {
    t.dense_order = t.order < 3 ? t.order : 3;
    for (size_t i = 0; i < t.nk; i++) {
      t.dense[i][1] = 3 * t.b[i];
      t.dense[i][2] = -2 * t.b[i];
    }
    t.dense[0][0] += 1;
    t.dense[0][1] -= 2;
    t.dense[0][2] += 1;
    t.dense[end][1] -= 1;
    t.dense[end][2] += 1;
  }
  return t;
}

constexpr Tableau rounded(const ExactTableau& t) {
  Tableau r;
  r.name = t.name;
  r.nstage = t.nstage;
  r.order = t.order;
  r.embedded_order = t.embedded_order;
  r.fsal = t.fsal;
  r.nk = t.nk;
  r.dense_order = t.dense_order;
  for (size_t i = 0; i < kMaxStage; i++) {
    for (size_t j = 0; j < kMaxStage; j++) r.A[i][j] = static_cast<double>(t.A[i][j]);
    for (size_t m = 0; m < kMaxDense; m++) r.dense[i][m] = static_cast<double>(t.dense[i][m]);
    r.b[i] = static_cast<double>(t.b[i]);
    r.bhat[i] = static_cast<double>(t.bhat[i]);
    r.c[i] = static_cast<double>(t.c[i]);
    r.error[i] = static_cast<double>(t.error[i]);
    r.gamma_time[i] = static_cast<double>(t.gamma_time[i]);
    for (size_t j = 0; j < kMaxStage; j++) r.C[i][j] = static_cast<double>(t.C[i][j]);
  }
  r.gamma = static_cast<double>(t.gamma);
  return r;
}

// clang-format off

inline constexpr ExactTableau kEuler = complete({
    .name = "explicit_euler", .nstage = 1, .order = 1,
    .b = {1}});

inline constexpr ExactTableau kHeun = complete({
    .name = "heun", .nstage = 2, .order = 2, .embedded_order = 1,
    .A = {{{}, {1}}},
    .b = {0.5L, 0.5L}, .bhat = {1, 0}});

inline constexpr ExactTableau kMidpoint = complete({
    .name = "midpoint", .nstage = 2, .order = 2, .embedded_order = 1,
    .A = {{{}, {0.5L}}},
    .b = {0, 1}, .bhat = {1, 0}});

// Node 2/3, which has the smallest bound on the error; not 3/4, which is also met under this name.
inline constexpr ExactTableau kRalston = complete({
    .name = "ralston", .nstage = 2, .order = 2, .embedded_order = 1,
    .A = {{{}, {2.0L / 3}}},
    .b = {0.25L, 0.75L}, .bhat = {1, 0}});

inline constexpr ExactTableau kBosh3 = complete({
    .name = "bosh3", .nstage = 4, .order = 3, .embedded_order = 2, .fsal = true,
    .A = {{{}, {0.5L}, {0, 0.75L}}},
    .b = {2.0L / 9, 1.0L / 3, 4.0L / 9},
    .bhat = {7.0L / 24, 0.25L, 1.0L / 3, 0.125L}});

// MuJoCo's own, which has neither estimate nor dense output there (integrate/rk4.cc).
inline constexpr ExactTableau kRk4 = complete({
    .name = "rk4", .nstage = 4, .order = 4,
    .A = {{{}, {0.5L}, {0, 0.5L}, {0, 0, 1}}},
    .b = {1.0L / 6, 1.0L / 3, 1.0L / 3, 1.0L / 6}});

// bhat of his paper, with bhat_7 = 1/66. Another b - bhat, 1.65 times this one, is met as well.
// The dense output is the only one of degree 4 and order 4 that is continuous with its derivative
// and has 2.5 θ⁴ in b_7: his, computed from these conditions to more than his 16 digits.
inline constexpr ExactTableau kTsit5 = complete({
    .name = "tsit5", .nstage = 7, .order = 5, .embedded_order = 4, .fsal = true,
    .A = {{
        {},
        {0.161L},
        {-0.008480655492356988544427L, 0.3354806554923569885444L},
        {2.897153057105493432130L, -6.359448489975074843148L, 4.362295432869581411018L},
        {5.325864828439256604429L, -11.74888356406282787775L, 7.495539342889836208305L,
         -0.09249506636175524925650L},
        {5.861455442946420028659L, -12.92096931784710929171L, 8.159367898576158643180L,
         -0.07158497328140099722453L, -0.02826905039406838290900L}}},
    .b = {0.09646076681806522951817L, 0.01L, 0.4798896504144995747752L, 1.379008574103741893192L,
          -3.290069515436080679901L, 2.324710524099773982415L},
    .bhat = {0.09468075576583945807479L, 0.009183565540343253096776L, 0.4877705284247615707856L,
             1.234297566930478985655L, -2.707712349983525454881L, 1.866628418170587035754L,
             1.0L / 66},
    .c = {0, 0.161L, 0.327L, 0.9L, 0.9800255409045096857298L, 1, 1},
    .dense_order = 4,
    .dense = {{
        {1, -2.763706197274825868673L, 2.913255461821912655419L, -1.053088497729021557227L},
        {0, 0.1317L, -0.2234L, 0.1017L},
        {0, 3.930296236894751517409L, -5.941033872131504735718L, 2.490627285651252793084L},
        {0, -12.41107716693367703873L, 30.33818863028232165023L, -16.54810288924490271831L},
        {0, 37.50931341651103917898L, -88.17890489476640107756L, 47.37952196281928121868L},
        {0, -27.89652628919728778898L, 65.09189467479367150763L, -34.87065786149660973623L},
        {0, 1.5L, -4, 2.5L}}}});

inline constexpr ExactTableau kDopri5 = complete({
    .name = "dopri5", .nstage = 7, .order = 5, .embedded_order = 4, .fsal = true,
    .A = {{
        {},
        {1.0L / 5},
        {3.0L / 40, 9.0L / 40},
        {44.0L / 45, -56.0L / 15, 32.0L / 9},
        {19372.0L / 6561, -25360.0L / 2187, 64448.0L / 6561, -212.0L / 729},
        {9017.0L / 3168, -355.0L / 33, 46732.0L / 5247, 49.0L / 176, -5103.0L / 18656}}},
    .b = {35.0L / 384, 0, 500.0L / 1113, 125.0L / 192, -2187.0L / 6784, 11.0L / 84},
    .bhat = {5179.0L / 57600, 0, 7571.0L / 16695, 393.0L / 640, -92097.0L / 339200, 187.0L / 2100,
             1.0L / 40},
    .c = {0, 1.0L / 5, 3.0L / 10, 4.0L / 5, 8.0L / 9, 1, 1},
    .dense_order = 4,
    .dense = {{
        {1, -8048581381.0L / 2820520608, 8663915743.0L / 2820520608, -12715105075.0L / 11282082432},
        {},
        {0, 131558114200.0L / 32700410799, -68118460800.0L / 10900136933,
         87487479700.0L / 32700410799},
        {0, -1754552775.0L / 470086768, 14199869525.0L / 1410260304, -10690763975.0L / 1880347072},
        {0, 127303824393.0L / 49829197408, -318862633887.0L / 49829197408,
         701980252875.0L / 199316789632},
        {0, -282668133.0L / 205662961, 2019193451.0L / 616988883, -1453857185.0L / 822651844},
        {0, 40617522.0L / 29380423, -110615467.0L / 29380423, 69997945.0L / 29380423}}}});

// RK8(7)13M, with f(t + h, x') as a 14th stage, which dense output reads and the next step begins
// with. The paper's fractions approximate to 4e-17: these are the roots they stand for. The dense
// output of [Bogacki90] is printed with errors of 6e-12, which break b(1) = b and the derivative at
// the ends: this is the nearest one that meets every condition.
inline constexpr ExactTableau kDopri8 = complete({
    .name = "dopri8", .nstage = 14, .order = 8, .embedded_order = 7, .fsal = true,
    .A = {{
        {},
        {1.0L / 18},
        {1.0L / 48, 1.0L / 16},
        {1.0L / 32, 0, 3.0L / 32},
        {5.0L / 16, 0, -75.0L / 64, 75.0L / 64},
        {3.0L / 80, 0, 0, 3.0L / 16, 3.0L / 20},
        {215595617.0L / 4500000000, 0, 0, 202047683.0L / 1800000000, -28693883.0L / 1125000000,
         23124283.0L / 1800000000},
        {0.01691798978729228118143L, 0, 0, 0.3878482784860431695265L, 0.03597736985150032789670L,
         0.1969702142156660601567L, -0.1727138523405018387614L},
        {0.06909575335919230064856L, 0, 0, -0.6342479767288541518828L, -0.1611975752246040803669L,
         0.1386503094588252554199L, 0.9409286140357562697242L, 0.2116363264819439818554L},
        {0.1835569968390453854898L, 0, 0, -2.468768084315592452744L, -0.2912868878163004563880L,
         -0.02647302023311737568844L, 2.847838764192800449165L, 0.2813873314698497925394L,
         0.1237448998633146576270L},
        {-1.215424817395888059161L, 0, 0, 16.67260866594577243228L, 0.9157418284168179605957L,
         -6.056605804357470947555L, -16.00357359415617811184L, 14.84930308629766255755L,
         -13.37157573528984931829L, 5.134182648179637933173L},
        {0.2588609164382642838157L, 0, 0, -4.774485785489205112310L, -0.4350930137770325094407L,
         -3.049483332072241509561L, 5.577920039936099117424L, 6.155831589861040097339L,
         -5.062104586736938370077L, 2.193926173180679061275L, 0.1346279986593349415357L},
        {0.8224275996265074779632L, 0, 0, -11.65867325727766428398L, -0.7576221166909361958811L,
         0.7139735881595815279783L, 12.07577498689005673957L, -2.127659113920402656391L,
         1.990166207048955418328L, -0.2342864715440402926603L, 0.1758985777079422650731L}}},
    .b = {0.04174749114153024622209L, 0, 0, 0, 0, -0.05545232861123930896152L,
          0.2393128072011800970467L, 0.7035106694034430230580L, -0.7597596138144609298845L,
          0.6605630309222863414614L, 0.1581874825101233355296L, -0.2381095387528628044719L, 0.25L},
    .bhat = {0.02955321367635349698196L, 0, 0, 0, 0, -0.8286062764877970397668L,
             0.3112409000511183279299L, 2.467345190599886981965L, -2.546941651841908739127L,
             1.443548583676775240302L, 0.07941559588112728727130L, 2.0L / 45},
    .c = {0, 1.0L / 18, 1.0L / 12, 1.0L / 8, 5.0L / 16, 3.0L / 8, 59.0L / 400, 93.0L / 200,
          5490023248.0L / 9719169821, 13.0L / 20, 0.9246562776405044467450L, 1, 1, 1},
    .dense_order = 5,
    .dense = {{
        {1, -6.691018173783211421947L, 19.99900693336868824039L, -30.06105682896661084819L,
         22.13965049980918414032L, -6.344834939286519864358L},
        {},
        {},
        {},
        {},
        {0, -7.614265804581324609725L, 52.22735327929762142095L, -121.4999627731332693379L,
         116.4422149550315369980L, -39.61079198522580378034L},
        {0, 10.72813926304095399486L, -46.89191641811038247528L, 83.17210046398466373160L,
         -67.14513188259491543451L, 20.37612138088086028038L},
        {0, 0.5526637063700467458958L, -0.1890893225037298613691L, 9.572450755599343941298L,
         -16.56722435274702714372L, 7.334709882684809340957L},
        {0, 4.218656262566098338586L, -35.70759759462249054739L, 87.84060576772041501185L,
         -89.99160148472451731519L, 32.88017743524603358226L},
        {0, -0.6627209125350674862795L, 6.273644808324591247611L, -17.41521077707627710691L,
         22.62374896485276846488L, -10.15889905264372877784L},
        {0, -1.263678900113156776199L, 10.31608812724531072030L, -28.59032895147901539324L,
         32.23623401673546574354L, -12.54012680987848095888L},
        {0, 5.410603789858719280694L, -34.76507698666139155859L, 81.66309505843404458842L,
         -82.10203154883596845069L, 29.55530014845173333569L},
        {0, -7.032137906794474702114L, 47.74579710782261052770L, -114.9375291377009283167L,
         116.2662185791119238587L, -41.79234864243913136761L},
        {0, 2.353758675971416636226L, -19.00820993416082771433L, 50.25583642261763372972L,
         -53.90207774663845086137L, 20.30069258221022820975L}}}});

// Stiffly accurate: x' = x_6 + h k_6, and h k_6 is the error. In his words
//   x(t + θ h) = x + θ Σ b_i h k_i + θ (1 - θ) (Σ H2_i h k_i + θ Σ H3_i h k_i)
constexpr ExactTableau rodas4p() {
  ExactTableau t{
    .name = "rodas4p", .nstage = 7, .order = 4, .embedded_order = 3, .fsal = true,
    .A = {{
        {},
        {3},
        {1.831036793486759L, 0.4955183967433795L},
        {2.304376582692669L, -0.05249275245743001L, -1.176798761832782L},
        {-7.170454962423024L, -4.741636671481785L, -16.31002631330971L, -1.062004044111401L},
        {-7.170454962423024L, -4.741636671481785L, -16.31002631330971L, -1.062004044111401L, 1}}},
    .b = {-7.170454962423024L, -4.741636671481785L, -16.31002631330971L, -1.062004044111401L, 1, 1},
    .bhat = {-7.170454962423024L, -4.741636671481785L, -16.31002631330971L, -1.062004044111401L, 1},
    .c = {0, 0.75L, 0.21L, 0.63L, 1, 1, 1},
    .dense_order = 3,
    .gamma = 0.25L,
    .C = {{
        {},
        {-12},
        {-8.791795173947035L, -2.207865586973518L},
        {10.81793056857153L, 6.780270611428266L, 19.53485944642410L},
        {34.19095006749676L, 15.49671153725963L, 54.74760875964130L, 14.16005392148534L},
        {34.62605830930532L, 15.30084976114473L, 56.99955578662667L, 18.40807009793095L,
         -5.714285714285717L}}},
    .gamma_time = {0.25L, -0.5L, -0.023504L, -0.0362L}};
  const long double H2[6] = {25.09876703708589L, 11.62013104361867L, 28.49148307714626L,
                             -5.664021568594133L},
                    H3[6] = {1.638054557396973L, -0.7373619806678748L, 8.477918219238990L,
                             15.99253148779520L, -1.882352941176471L};
  for (size_t i = 0; i < 6; i++) {
    t.dense[i] = {t.b[i] + H2[i], H3[i] - H2[i], -H3[i]};
  }
  return complete(t);
}
inline constexpr ExactTableau kRodas4p = rodas4p();

// clang-format on

}  // namespace exact

inline constexpr Tableau kEuler = exact::rounded(exact::kEuler);
inline constexpr Tableau kHeun = exact::rounded(exact::kHeun);
inline constexpr Tableau kMidpoint = exact::rounded(exact::kMidpoint);
inline constexpr Tableau kRalston = exact::rounded(exact::kRalston);
inline constexpr Tableau kRk4 = exact::rounded(exact::kRk4);
inline constexpr Tableau kBosh3 = exact::rounded(exact::kBosh3);
inline constexpr Tableau kTsit5 = exact::rounded(exact::kTsit5);
inline constexpr Tableau kDopri5 = exact::rounded(exact::kDopri5);
inline constexpr Tableau kDopri8 = exact::rounded(exact::kDopri8);
inline constexpr Tableau kRodas4p = exact::rounded(exact::kRodas4p);

// The explicit methods a user may ask for.
inline constexpr std::array<const Tableau*, 8> kTableaus = {&kEuler, &kHeun,  &kMidpoint, &kRalston,
                                                            &kBosh3, &kTsit5, &kDopri5,   &kDopri8};

// The method of that name, explicit or not, or null.
const Tableau* find_tableau(std::string_view name);

}  // namespace diffmj

#endif  // DIFFMJ_INTEGRATE_TABLEAU_H_
